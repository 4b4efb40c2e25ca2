"""Long lists in numbered pages. The order of these lists changes with the data, so a cursor would soon mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Generic, NamedTuple, TypeVar

from fastapi import Query

ROWS: Final = 100

PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]

Row = TypeVar("Row")


class Paged(NamedTuple, Generic[Row]):
    """One page of a list. `first`: number of the first row shown, from 1. `before`, `after`: numbers of the
    neighbouring pages, None if there is none."""

    rows: Sequence[Row]
    first: int
    total: int
    before: int | None
    after: int | None

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


def paged(rows: Sequence[Row], page: int, size: int = ROWS) -> Paged[Row]:
    """Returns the page with that number; the last page if there is no such page (any more)."""
    last = max((len(rows) - 1) // size + 1, 1)
    page = min(page, last)
    begin = (page - 1) * size
    return Paged(
        rows[begin : begin + size],
        begin + 1,
        len(rows),
        page - 1 if page > 1 else None,
        page + 1 if page < last else None,
    )
