"""Reads the readable rows of a damaged SQLite file, around the damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from service.store.backends.sqlite.file import is_damaged, store_file

_FIRST, _LAST = -(2**63), 2**63 - 1

_MOST_PROBES: Final = 20_000
"""Maximum number of queries for one table. A damaged page costs two queries for each bit of a row id."""


class DamagedFile:
    """A SQLite file that may be damaged, opened so that SQLite reads as much as possible."""

    def __init__(self, path: str, wait_s: float) -> None:
        """Takes the write lock, so that no process writes rows that would not be copied. If the damage keeps SQLite
        from locking the file, goes on without the lock.

        Raises sqlite3.OperationalError if another process holds the lock for longer than `wait_s`.
        """
        self._raw = sqlite3.connect(store_file(path).uri(may_create=False), wait_s, uri=True, isolation_level=None)
        try:
            for statement in ("PRAGMA writable_schema = ON", "BEGIN IMMEDIATE"):  # ON: reads a truncated file, too
                self._raw.execute(statement)
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                self._raw.close()
                raise

    def revision(self) -> str | None:
        """Returns the revision of the tables; None if it cannot be read."""
        try:
            row = self._raw.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.DatabaseError:
            return None
        return None if row is None else str(row[0])

    def columns(self, table: str) -> list[str]:
        """Returns the names of the columns, an empty list if the table's definition cannot be read."""
        try:
            return columns_of(self._raw, table)
        except sqlite3.DatabaseError:
            return []

    def close(self) -> None:
        self._raw.close()

    def rows(self, table: str, columns: Sequence[str]) -> Reading:
        return Reading(self._raw, table, columns)


class Reading:
    """The readable rows of one table, in no particular order. After the iteration, `is_whole` is True if the iteration
    met no damage, and so lost no row."""

    def __init__(self, raw: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
        names = ", ".join(f'"{name}"' for name in columns)
        self._raw = raw
        self._query = f'SELECT rowid, {names} FROM "{table}" NOT INDEXED WHERE rowid BETWEEN ? AND ? ORDER BY rowid'  # noqa: S608
        self._probes = 0
        self.is_whole = True

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Reads a range from both ends up to the damage, then halves the range in between and reads each half in the
        same way."""
        open_ranges = [(_FIRST, _LAST)]
        while open_ranges and self._probes < _MOST_PROBES:
            first, last = open_ranges.pop()
            reached = first
            for rowid, *values in self._until_damage(first, last, ""):
                reached = rowid + 1
                yield tuple(values)
            if self._ended_well:
                continue
            self.is_whole = False
            back = last
            for rowid, *values in self._until_damage(reached, last, " DESC"):
                back = rowid - 1
                yield tuple(values)
            if reached < back:
                middle = (reached + back) // 2
                open_ranges += [(reached, middle), (middle + 1, back)]

    def _until_damage(self, first: int, last: int, order: str) -> Iterator[tuple[Any, ...]]:
        self._probes += 1
        self._ended_well = False
        try:
            with closing(self._raw.execute(self._query + order, (first, last))) as cursor:
                yield from cursor
            self._ended_well = True
        except sqlite3.DatabaseError:  # whatever the error: this part cannot be read
            return


def columns_of(raw: sqlite3.Connection, table: str) -> list[str]:
    """Returns the names of the table's columns."""
    return [str(row[1]) for row in raw.execute(f'PRAGMA table_info("{table}")')]
