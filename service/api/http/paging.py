"""Pages of lists: the parameters `limit` and `cursor`, the cursors, and pages of a list that is in memory."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import islice
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query as QueryParameter
from pydantic import Field, TypeAdapter, ValidationError

from service.api.http.fields import decode_bytes
from service.api.http.problems import BAD_CURSOR, ProblemError
from service.domain.transaction_log.timeline import TimelineCursor
from service.store.queries.transaction_pages import PageCursor, is_cursor
from service.views.addresses import encode_bytes

Limit = Annotated[int, QueryParameter(ge=1, le=200, description="Maximum number of items in the page.")]
Cursor = Annotated[
    str | None, QueryParameter(description="`next_cursor` of the previous page; send the same filters with it.")
]

LIMIT = 50
"""Items of a page if the request gives no `limit`."""

Key = tuple[int | str, ...]
"""The position of an item in its list. Keys ascend along the list."""

Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]

T = TypeVar("T")

_KEY: Final = TypeAdapter(tuple[int | str, ...])


def cut(
    items: Iterable[T], key: Callable[[T], Key], limit: int, cursor: str | None, *filters: Any
) -> tuple[list[T], str | None]:
    """Returns at most `limit` items after `cursor`, and the cursor of the next page. The last page has the cursor None.

    `items` come in the order of their keys. `filters`: as for `seal`. Raises ProblemError (400) if this service did not
    make the cursor, or made it for another list.
    """
    after = read_place(_KEY, cursor, *filters)
    page = list(islice((one for one in items if after is None or _is_behind(key(one), after)), limit + 1))
    if len(page) <= limit:
        return page, None
    return page[:limit], write_place(key(page[limit - 1]), *filters)


def _is_behind(key: Key, after: Key) -> bool:
    try:
        return key > after
    except TypeError:
        raise foreign_cursor() from None


def write_place(place: Any, *filters: Any) -> str:
    """Returns the cursor of a page that ended at `place`, a value that JSON can hold. `filters`: as for `seal`."""
    return seal(json.dumps(place).encode(), *filters)


def read_place(kind: TypeAdapter[T], cursor: str | None, *filters: Any) -> T | None:
    """Returns the place in the cursor, a value of the type of `kind`; None without a cursor. Raises ProblemError (400)
    if this service did not make the cursor, or made it for another list."""
    try:
        return None if cursor is None else kind.validate_json(unseal(cursor, 1, *filters), strict=True)
    except ValidationError:
        raise foreign_cursor() from None


_FINGERPRINT = 8  # bytes

# segment, whether there is a time, the time; the id's bytes follow. Packed to be short: an id may be 32 kB long, and
# a request line not much longer
_HEAD = struct.Struct(">B?q")


def write_cursor(place: PageCursor, *filters: Any) -> str:
    """Returns the cursor of a page of ids that ended at `place`. `filters`: as for `seal`."""
    return seal(_HEAD.pack(place.segment, place.ms is not None, place.ms or 0) + place.transactional_id, *filters)


def read_cursor(cursor: str, sort: str, *filters: Any) -> PageCursor:
    """Returns the place in the cursor. Raises ProblemError (400) if this service did not make the cursor, or made it
    for another query.
    """
    data = unseal(cursor, _HEAD.size, *filters)
    segment, has_time, ms = _HEAD.unpack_from(data)
    place = PageCursor(segment, ms if has_time else None, data[_HEAD.size :])
    if not is_cursor(sort, place):
        raise foreign_cursor()
    return place


_TIMELINE: Final = TypeAdapter(tuple[tuple[Int64, Int64, Int64] | None, Int64 | None])


def read_timeline_cursor(cursor: str | None, *filters: Any) -> TimelineCursor:
    """Returns the place that `write_place` put into the cursor; if `cursor` is None, the beginning of the timeline.
    Raises ProblemError (400) as `read_cursor` does."""
    return TimelineCursor(*(read_place(_TIMELINE, cursor, *filters) or ()))


def seal(place: bytes, *filters: Any) -> str:
    """Returns a cursor for the place where a page ended, valid for these filters only.

    `filters`: everything the page depends on except its limit, as frozen values with the same `repr` in every process.
    """
    return encode_bytes(_fingerprint(filters) + place)


def unseal(cursor: str, least: int, *filters: Any) -> bytes:
    """Returns the place that `seal` put into the cursor: `least` bytes or more. Raises ProblemError (400) if this
    service did not make the cursor, or made it for another query."""
    data = decode_bytes(cursor)
    if data is None or len(data) < _FINGERPRINT + least:
        raise foreign_cursor()
    if data[:_FINGERPRINT] != _fingerprint(filters):
        raise ProblemError(
            400,
            BAD_CURSOR,
            "the cursor belongs to other filters or another sort; request the first page without a cursor",
        )
    return data[_FINGERPRINT:]


def foreign_cursor() -> ProblemError:
    return ProblemError(400, BAD_CURSOR, "this API did not make the cursor; request the first page without a cursor")


def _fingerprint(filters: tuple[Any, ...]) -> bytes:
    return blake2b(repr(filters).encode(), digest_size=_FINGERPRINT).digest()
