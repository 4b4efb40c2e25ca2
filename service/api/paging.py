"""Pages of lists: what every list takes, and the page of one that is at hand as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated, Any, TypeVar

from fastapi import Query as QueryParameter

from service.api.http.paging import foreign_cursor, seal, unseal

Limit = Annotated[int, QueryParameter(ge=1, le=200, description="Items of the page at most.")]
Cursor = Annotated[
    str | None, QueryParameter(description="`next_cursor` of the page before, with the filters of that page.")
]

LIMIT = 50
"""Items of a page where nobody says how many."""

Key = tuple[int | str, ...]
"""Where an item stands in its list: keys rise."""

T = TypeVar("T")


def cut(
    items: Iterable[T], key: Callable[[T], Key], limit: int, cursor: str | None, *filters: Any
) -> tuple[list[T], str | None]:
    """The items behind `cursor`, at most `limit`, and the cursor of the next page (None: this was the last).

    `items` come in the order of their keys. `filters`: as `seal`. ProblemError (400): the cursor is
    none of ours, or of another list.
    """
    after = None if cursor is None else _key(unseal(cursor, 1, *filters))
    page = list(islice((one for one in items if after is None or _is_behind(key(one), after)), limit + 1))
    if len(page) <= limit:
        return page, None
    return page[:limit], seal(json.dumps(key(page[limit - 1])).encode(), *filters)


def _is_behind(key: Key, after: Key) -> bool:
    try:
        return key > after
    except TypeError:
        raise foreign_cursor() from None


def _key(data: bytes) -> Key:
    try:
        return tuple(json.loads(data))
    except (ValueError, TypeError, RecursionError):
        raise foreign_cursor() from None
