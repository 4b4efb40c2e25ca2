"""The base of every body of the API: the types that fields share, and the JSON that is made of a body.

A body is a dataclass: building one checks nothing at run time, so a list of thousands costs little; mypy checks the
types. pydantic describes the class for OpenAPI and writes the JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from operator import attrgetter
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreSchema, core_schema

from service.api.http.fields import text_of_time
from service.domain.transaction_log.states import NO_TIME, is_time, past_time

EXACT_UP_TO: Final = 2**53
"""All integers up to this absolute value are exact for a client that reads JSON numbers as doubles."""


class OneOf:
    """Annotates a text that is one of a few words. OpenAPI lists the words, and a parameter takes no other word. A body
    may contain another word: an answer with an unknown word is better than no answer.
    """

    def __init__(self, *words: str) -> None:
        self._words = [str(word) for word in words]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        words = core_schema.literal_schema(self._words)
        is_enum = isinstance(source, type) and issubclass(source, StrEnum)
        return core_schema.no_info_after_validator_function(source, words) if is_enum else words


Time = Annotated[
    str,
    Field(json_schema_extra={"format": "date-time"}, examples=["2026-01-31T12:00:00.000Z"]),
]
"""A time in RFC 3339, UTC, with milliseconds."""


class Moment(NamedTuple):
    """A time in a record or in an answer of a broker. `text`: the time in RFC 3339; None if there is no time, or if the
    number of milliseconds is no valid time. `raw_ms`: the number, only if it is no valid time. `raw_digits`: the digits
    of `raw_ms`, only if `raw_ms` is beyond +-2^53."""

    text: str | None = None
    raw_ms: int | None = None
    raw_digits: str | None = None


@lru_cache(maxsize=4096)  # repeated answers contain mostly the same times
def moment(ms: int | None) -> Moment:
    """Returns the Moment of a time in ms. The Moment is empty for None and for -1, with which Kafka means "no time"."""
    if ms is None or ms == NO_TIME:
        return Moment()
    return Moment(text_of_time(ms)) if is_time(ms) else Moment(None, ms, _digits(ms))


def past_moment(ms: int | None, now_ms: int) -> Moment:
    """Returns the time of something that had happened by `now_ms`. For a number that cannot be such a time, returns a
    Moment with the number and without text."""
    if ms is None or ms == NO_TIME or past_time(ms, now_ms) is not None:
        return moment(ms)
    return Moment(None, ms, _digits(ms))


def _digits(number: int | None) -> str | None:
    return None if number is None or -EXACT_UP_TO <= number <= EXACT_UP_TO else str(number)


_DECLARED: Final = "declared"
_RAW_MS: Final = Annotated[
    int | None, Field(description="The record's number (ms) if it is no valid time; the time itself is then null.")
]
_DIGITS: Final = Annotated[
    str | None, Field(description="The number's digits, present only if the number is above 2^53.")
]
_UNLISTED = SkipJsonSchema[str | None]


class _AsText:
    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = handler.generate_schema(Time | None)
        written = core_schema.plain_serializer_function_ser_schema(attrgetter("text"), return_schema=text)
        return core_schema.nullable_schema(core_schema.str_schema(), serialization=written)


RawTime = Annotated[Moment, _AsText()]
"""A time from a record. If the record's number is no valid time, the body has null for the time, followed by the number
as `x_raw_ms`."""

Wide = Annotated[int, _DECLARED]
"""An integer that may be above 2^53. For such a field `x`, OpenAPI lists the key `x_str`. A plain `int` above 2^53 has
the key in the JSON, too, but OpenAPI does not list the key."""

IdBytes = Annotated[
    str | None,
    Field(description="The id's bytes as base64url if the id is not valid UTF-8, else null."),
]


class _Beside(NamedTuple):
    """A key that the JSON has after the key of a field, such as `x_str` after `x`. The value of this key is computed
    from the value of the field. `get`: returns the computed value for a body; if `get` returns None, the key is left
    out."""

    name: str
    type: Any
    get: Callable[[Any], Any]


def _beside(field: str, key: str, hint: Any) -> Iterator[_Beside]:
    """Yields the keys that follow a field of this type in the JSON."""
    parts = set(_parts(hint))
    if Moment in parts:
        raw = f"{key.removesuffix('_at')}_raw_ms"
        yield _Beside(raw, _RAW_MS, attrgetter(f"{field}.raw_ms"))
        yield _Beside(f"{raw}_str", _UNLISTED, attrgetter(f"{field}.raw_digits"))
    elif int in parts:
        number = attrgetter(field)
        text = _DIGITS if _DECLARED in parts else _UNLISTED
        yield _Beside(f"{key}_str", text, lambda body: _digits(number(body)))


def _parts(hint: Any) -> Iterator[Any]:
    """Yields the types in a union and their annotations; for any other type, the type itself."""
    if get_origin(hint) in (Annotated, Union, UnionType):
        for part in get_args(hint):
            yield from _parts(part)
    elif isinstance(hint, Hashable):
        yield hint


@dataclass_transform(kw_only_default=True)
@dataclass(kw_only=True)
class Shape:
    """A body of the API; each subclass is a dataclass. After a number `x` above 2^53 the JSON has `x_str`, its digits.
    After a RawTime that is no valid time the JSON has its number, `x_raw_ms`.

    A field that has its default value is left out of the JSON. Every other field is in the JSON, as null if its value
    is None.
    """

    __pydantic_config__ = ConfigDict(json_schema_extra={"patternProperties": {"_str$": {"type": "string"}}})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(kw_only=True)(cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Returns pydantic's schema of the fields, to which it adds the keys that the JSON has after some fields, such
        as `x_str` after `x`."""
        schema = handler(source)
        body: Any = handler.resolve_ref_schema(schema)
        hints = get_type_hints(source, include_extras=True)
        fields = {field["name"]: field for field in body["schema"]["fields"]}
        if not fields.keys() <= hints.keys():
            return schema  # a body that contains this class twice
        body["schema"]["fields"] = []
        for name, field in fields.items():
            body["schema"]["fields"].append(field)
            for one in _beside(name, field.get("serialization_alias", name), hints[name]):
                absent = core_schema.with_default_schema(handler.generate_schema(one.type), default=None)
                body["schema"]["fields"].append(core_schema.dataclass_field(one.name, absent))
                setattr(source, one.name, property(one.get, lambda *_: None))
        body["fields"] = [field["name"] for field in body["schema"]["fields"]]
        return schema


B = TypeVar("B", bound=Shape)
T = TypeVar("T")


class Page(Shape, Generic[T]):
    """A page of a list. Each kind of page is a class of its own, because OpenAPI names a page by its class."""

    items: list[T]
    next_cursor: str | None
    as_of: Time | None

    def __init_subclass__(cls) -> None:
        """Gives `items` its type, which pydantic does not take from the base class."""
        (page,) = cls.__orig_bases__  # type: ignore[attr-defined]
        cls.__annotations__ = {"items": list[get_args(page)[0]], **cls.__annotations__}  # type: ignore[misc]
        super().__init_subclass__()


def shaped(kind: type[B], source: object, **more: Any) -> B:
    """Returns a body with the fields in `more`. The values of all other fields come from the fields of the same names
    in `source`, a record or another body."""
    hashable: Any = kind
    for name in _others(hashable, tuple(more)):
        more[name] = getattr(source, name)
    return kind(**more)


@cache
def _others(kind: type[Shape], given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in kind.__dataclass_fields__ if name not in given)


def to_json(body: Shape) -> bytes:
    """Returns the body as JSON bytes."""
    kind: Any = type(body)
    content: bytes = _adapter(kind).dump_json(body, by_alias=True, exclude_defaults=True)
    return content


@cache
def _adapter(kind: type[Shape]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
