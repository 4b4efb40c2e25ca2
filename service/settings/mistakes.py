"""Explains a value that the model of the settings refuses: one line with the place, the key, the value, and the values
that are allowed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from service.settings.model import Settings

_KEY: Final = "[key]"
"""pydantic ends an error's location with this part if the mistake is in a key that people choose, such as a name in
`[operators]`."""
_TEXTS: Final = {
    "bool_type": "neither true nor false",
    "bool_parsing": "neither true nor false",
    "literal_error": "choose {expected}",
    "too_short": "empty",
}
"""Texts that replace pydantic's own for some kinds of errors."""
_NOT_A_TABLE: Final = ("model_type", "model_attributes_type", "dict_type")


class Place(NamedTuple):
    """A source of settings, such as the flags. `name`: the name of the source. `name_of`: returns the name of a setting
    in this source, such as `--port`."""

    values: Mapping[str, Any]
    name_of: Callable[[str], str]
    name: str = ""


class _Spot(NamedTuple):
    """A position in the settings. `path`: the keys that lead to it, as people read them. `model`: the table at this
    position; None if a value is there. `field`: the description of the value. `may_show`: True if the value is no
    secret."""

    path: Sequence[str]
    model: type[BaseModel] | None
    field: FieldInfo | None
    may_show: bool


def explain(error: ValidationError, values: Mapping[str, Any], places: Sequence[Place]) -> str:
    """Returns the text of the first mistake, with the source of the value. An unknown key comes first: it may be a
    misspelt form of a key that is reported as missing."""
    first = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    where = first["loc"][:-2] if first["loc"][-1:] == (_KEY,) else first["loc"]
    if not where:  # a mistake of several settings together
        return str(first["ctx"]["error"])
    is_missing, is_unknown = first["type"] == "missing", first["type"] == "extra_forbidden"
    place = next((place for place in places if _has(place.values, where[:-1] if is_missing else where)), places[0])
    spot = _spot(where[:-1] if is_missing or is_unknown else where, values)
    origin = place.name_of(str(where[0])) if spot.path else place.name
    return ": ".join([origin, *spot.path[1:], *_what(first, spot)])


def _spot(where: Sequence[str | int], values: Mapping[str, Any]) -> _Spot:
    model: type[BaseModel] | None = Settings
    field: FieldInfo | None = None
    path: list[str] = []
    is_element, may_show, at = False, True, values
    for part in where:
        at = _item(at, part)
        if isinstance(part, int):
            name = _item(at, "name")
            called = repr(name) if isinstance(name, str) else str(part + 1)
            path.append(f"{path[-1].removesuffix('s')} {called}")
        elif is_element and len(path) > 1:
            path[-1] += f".{part}"
        else:
            path.append(part)
        if is_element or model is None:
            is_element = False
            continue
        field = model.model_fields.get(str(part))
        kinds = [] if field is None else list(_kinds(field.annotation))
        may_show = may_show and (field is None or field.repr)
        is_element = any(get_origin(kind) in (dict, tuple) for kind in kinds)
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    return _Spot(path, model, field, may_show)


def _what(error: ErrorDetails, spot: _Spot) -> Iterator[str]:
    """Yields the end of the line: the value (unless it is secret or in the text already), and the mistake."""
    kind, name = error["type"], str(error["loc"][-1])
    field = spot.model.model_fields[name] if kind == "missing" and spot.model is not None else spot.field
    example = "" if field is None or not field.examples else f": write {name} = {field.examples[0]}"
    if kind == "extra_forbidden":
        yield f"unknown key {name!r}{_hint(name, spot.model)}"
    elif kind == "missing":
        yield f"{name} is missing{example}"
    elif kind == "value_error":
        yield str(error["ctx"]["error"])
    elif kind in _NOT_A_TABLE:
        header = ".".join(str(part) for part in error["loc"] if isinstance(part, str))
        written = f"[[{header}]]" if isinstance(error["loc"][-1], int) else f"[{header}]"
        yield f"not a table{example or f': write {written}'}"
    elif kind == "tuple_type" and spot.model is not None:
        yield f"not a list of tables: write [[{name}]]"
    else:
        if spot.may_show or error["input"] == "":
            yield repr(error["input"])
        yield (_TEXTS[kind].format(**error.get("ctx", {})) if kind in _TEXTS else str(error["msg"])) + example


def _hint(name: str, model: type[BaseModel] | None) -> str:
    """Returns the end of an error sentence: the known key that is most like `name`, or, if no key is similar, all keys
    of the table. For the top level, never returns all keys."""
    known: Iterable[str] = () if model is None else model.model_fields
    return did_you_mean(name, known) or ("" if model is Settings else f"; there are: {', '.join(known)}")


def did_you_mean(name: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """Returns the end of an error sentence: the known name that is most like `name`, as `shown` writes it; an empty
    text if none is similar."""
    near = difflib.get_close_matches(name.replace("-", "_").lower(), known, 1)
    return f" (did you mean {shown(near[0])}?)" if near else ""


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yields a type and all types within it."""
    yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)


def _has(values: Any, where: Sequence[str | int]) -> bool:
    for part in where:
        if _item(values, part) is None:
            return False
        values = _item(values, part)
    return True


def _item(values: Any, part: str | int) -> Any:
    try:
        return values[part]
    except (TypeError, LookupError):
        return None
