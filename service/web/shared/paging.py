"""Long lists in pages by number: their order moves with the data, so a place in it would mean nothing for long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Generic, NamedTuple, TypeVar

from fastapi import Query

ROWS: Final = 100

PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]

Row = TypeVar("Row")


class Paged(NamedTuple, Generic[Row]):
    """`first`: the number of the first row that is shown, from 1. `before`, `after`: numbers of pages, None: none."""

    rows: Sequence[Row]
    first: int
    total: int
    before: int | None
    after: int | None

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


def paged(rows: Sequence[Row], page: int, size: int = ROWS) -> Paged[Row]:
    """A page that is not there (any more) is the last one."""
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
