"""The names of the configuration: keys and their allowed values, environment variables, and defaults that
are texts, numbers or booleans."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel

from service.access.principal import Role
from service.kafka.oauth import COMMAND
from service.settings import ENV_PREFIX, Settings


def sections() -> dict[str, list[str]]:
    fields = Settings.model_fields
    defaults = [
        f"{name} = {field.default}" for name, field in fields.items() if isinstance(field.default, str | int | bool)
    ]
    return {
        "configuration keys": list(_keys(Settings, "")),
        "configuration defaults": defaults,
        "variables": [f"{ENV_PREFIX}{name.upper()}" for name in (*fields, "config")],
        "roles": [role.word for role in Role],
        "keys of client.properties": [COMMAND],
    }


def _keys(table: type[BaseModel], before: str) -> Iterator[str]:
    """Yields the keys of a table, the keys of its inner tables, and the allowed values of keys. `NAME` stands for a key
    that users choose, `[]` for one of several tables. Also yields `TABLE needs KEY` for each required key."""
    for name, field in table.model_fields.items():
        key = f"{before}{name}"
        yield key
        if field.is_required():
            yield f"{before.rstrip('.') or 'configuration'} needs {name}"
        yield from _within(field.annotation, key)


def _within(annotation: Any, key: str) -> Iterator[str]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not key.endswith("]"):
            yield f"{key} (table)"
        yield from _keys(annotation, f"{key}.")
    elif isinstance(annotation, type) and issubclass(annotation, StrEnum):
        yield from (f"{key} = {word}" for word in annotation)
    elif (origin := get_origin(annotation)) is Literal:
        yield from (f"{key} = {word}" for word in get_args(annotation))
    elif origin is Annotated:
        yield from _within(get_args(annotation)[0], key)
    elif origin in (tuple, frozenset):
        held = get_args(annotation)[0]
        is_table = isinstance(held, type) and issubclass(held, BaseModel)
        if is_table:
            yield f"{key}[]"
        yield from _within(held, f"{key}[]" if is_table else key)
    elif origin is dict:
        held = get_args(annotation)[1]
        yield f"{key}.NAME"
        yield from _within(held, f"{key}.NAME")
    else:  # a union, or a plain type
        for one in get_args(annotation):
            yield from _within(one, key)
