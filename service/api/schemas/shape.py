"""The base of every body of the API: the types that fields share, and the JSON that is made of a body.

A body is a dataclass: building one checks nothing at run time, so a list of thousands costs little; mypy checks the
types. pydantic describes the class for OpenAPI and writes the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

EXACT_UP_TO: Final = 2**53
"""Largest integer up to which all JSON numbers are exact for a client that reads them as doubles."""

# match bytes of our own JSON; 2^53 has 16 digits. No text can be mistaken for a key: quotes within a text are escaped,
# and between two texts there is always a colon or a comma
_MAYBE_WIDE: Final = re.compile(rb'":-?[0-9]{16}')
_LONG: Final = re.compile(rb'"([\w.-]+)":(-?[0-9]{16,})(?=[,}])')


class OneOf:
    """Annotates a text that is one of a few words. OpenAPI lists the words, and a parameter takes no other. A body may
    still have another one: an answer with a strange word is better than none.
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

RawMs = Annotated[
    int | None, Field(description="The record's number if it is no valid time: the time beside it is then null.")
]
Wide = Annotated[str | None, Field(description="The number's digits, present only if the number is above 2^53.")]
"""Declares `x_str` for OpenAPI. Nothing sets it: `to_json` writes it beside any number that needs it."""

IdBytes = Annotated[
    str | None,
    Field(description="The id's bytes as base64url if the id is not valid UTF-8, else null."),
]


@dataclass(slots=True, kw_only=True)
class Shape:
    """A body of the API. It may have further keys: `x_str` beside any number `x` above 2^53.

    A field with a default is left out of the JSON while it has that value; every other field is there, null if None.
    """

    __pydantic_config__ = ConfigDict(json_schema_extra={"patternProperties": {"_str$": {"type": "string"}}})


B = TypeVar("B", bound=Shape)


def extended(kind: Callable[..., B], body: Shape, **more: Any) -> B:
    """Returns the body as `kind`, which has the fields of the body and those in `more`."""
    return kind(**{name: getattr(body, name) for name in body.__dataclass_fields__}, **more)


def to_json(body: Shape) -> bytes:
    """Returns the JSON of the body, with a text `x_str` after every number `x` that a double cannot hold."""
    content: bytes = _adapter(body).dump_json(body, by_alias=True, exclude_defaults=True)
    return _LONG.sub(_spell_out, content) if _MAYBE_WIDE.search(content) else content


def _spell_out(long: re.Match[bytes]) -> bytes:
    pair, key, number = long[0], long[1], long[2]
    return pair if abs(int(number)) <= EXACT_UP_TO else b'%b,"%b_str":"%b"' % (pair, key, number)


_ADAPTERS: Final[dict[type, TypeAdapter[Any]]] = {}


def _adapter(body: Shape) -> TypeAdapter[Any]:
    """Returns pydantic's writer of bodies of this type, which is made at its first use."""
    kind = type(body)
    if (adapter := _ADAPTERS.get(kind)) is None:
        adapter = _ADAPTERS[kind] = TypeAdapter(kind)
    return adapter
