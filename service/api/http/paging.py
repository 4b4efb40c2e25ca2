"""Opaque cursors: where a page ended, and a fingerprint of the filters it came with."""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any

from service.api.base64url import decode_bytes, encode_bytes
from service.api.http.problems import BAD_CURSOR, ProblemError
from service.store.queries.transaction_pages import Place, is_place

_FINGERPRINT = 8  # bytes

# segment, whether there is a time, the time; the id's bytes follow. Packed, because an id may be 32 kB long and a
# request line not much longer
_HEAD = struct.Struct(">B?q")


def write_cursor(place: Place, *filters: Any) -> str:
    """`filters`: everything the page depends on but its limit; frozen values, alike in every process."""
    return seal(_HEAD.pack(place.segment, place.ms is not None, place.ms or 0) + place.transactional_id, *filters)


def read_cursor(cursor: str, sort: str, *filters: Any) -> Place:
    """ProblemError (400) if it is none of ours, or of another query."""
    data = unseal(cursor, _HEAD.size, *filters)
    segment, has_time, ms = _HEAD.unpack_from(data)
    place = Place(segment, ms if has_time else None, data[_HEAD.size :])
    if not is_place(sort, place):
        raise foreign_cursor()
    return place


def seal(place: bytes, *filters: Any) -> str:
    """A cursor of where a page ended, good for these filters only."""
    return encode_bytes(_fingerprint(filters) + place)


def unseal(cursor: str, least: int, *filters: Any) -> bytes:
    """What was sealed, `least` bytes or more. ProblemError (400) if it is none of ours, or of another query."""
    data = decode_bytes(cursor)
    if data is None or len(data) < _FINGERPRINT + least:
        raise foreign_cursor()
    if data[:_FINGERPRINT] != _fingerprint(filters):
        raise ProblemError(400, BAD_CURSOR, "the cursor belongs to other filters or another sort: begin without it")
    return data[_FINGERPRINT:]


def foreign_cursor() -> ProblemError:
    return ProblemError(400, BAD_CURSOR, "the cursor is not one that this API gave out")


def _fingerprint(filters: tuple[Any, ...]) -> bytes:
    return blake2b(repr(filters).encode(), digest_size=_FINGERPRINT).digest()
