"""The trigram index for searches in the display texts of ids.

The job that reads the transaction log extends the index after its batches, so that the first read does not wait for the
index. In a search, ids above the last indexed row id are always candidates.

PostgreSQL gets no such index by default: the index makes writing a new id 29 % slower (docs/benchmarks.md), and a
search of a million ids takes half a second without an index. Operators can create an index (docs/running.md); the same
queries use this index.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, Engine

_END: Final = "transactional_ids_trigrams_end"
"""The table that holds the last row id in the index. A new id gets the row id after the highest present one, so row ids
are used again after retention has deleted ids. A trigger therefore lowers the stored row id to the highest one that is
left."""

_CREATE: Final = (
    # stores neither the texts nor positions in them: a match still has to be compared with the text
    "CREATE VIRTUAL TABLE transactional_ids_trigrams USING fts5"
    "(display, content='transactional_ids', detail=none, columnsize=0, tokenize='trigram')",
    "CREATE TABLE transactional_ids_trigrams_end (last_row INTEGER NOT NULL)",
    "INSERT INTO transactional_ids_trigrams_end VALUES (0)",
    "CREATE TRIGGER transactional_ids_trigrams_lower AFTER DELETE ON transactional_ids BEGIN"
    " UPDATE transactional_ids_trigrams_end SET last_row = (SELECT coalesce(max(rowid), 0) FROM transactional_ids)"
    " WHERE last_row > (SELECT coalesce(max(rowid), 0) FROM transactional_ids); END",
)
_DROP: Final = (
    "DROP TRIGGER IF EXISTS transactional_ids_trigrams_lower",
    "DROP TABLE IF EXISTS transactional_ids_trigrams",
    "DROP TABLE IF EXISTS transactional_ids_trigrams_end",
)
_ENDS: Final = (
    "SELECT last_row, (SELECT coalesce(max(rowid), 0) FROM transactional_ids) FROM transactional_ids_trigrams_end"
)
_EXTEND: Final = (
    "INSERT INTO transactional_ids_trigrams (rowid, display)"
    " SELECT rowid, display FROM transactional_ids WHERE rowid > ? AND rowid <= ?"
)
_SET_END: Final = "UPDATE transactional_ids_trigrams_end SET last_row = ?"
_FIND: Final = (
    "SELECT rowid FROM transactional_ids_trigrams WHERE transactional_ids_trigrams MATCH ?"
    " UNION ALL SELECT rowid FROM transactional_ids"
    " WHERE rowid > (SELECT last_row FROM transactional_ids_trigrams_end) LIMIT ?"
)
_LENGTH: Final = 3
_MOST_PIECES: Final = 8
_AT_ONCE: Final = 100_000
"""Maximum number of ids added in one transaction. Writers wait a quarter of a second for such a transaction."""


def extend(engine: Engine) -> bool:
    """Adds at most _AT_ONCE ids that are not in the index yet. Creates a missing index first, if this version of SQLite
    can. Returns whether ids were added."""
    with engine.begin() as connection:
        if not _is_there(connection):
            if not _is_possible(connection):
                return False
            _execute(connection, _CREATE)
        last_row, newest = connection.exec_driver_sql(_ENDS).one()
        if newest <= last_row:
            return False
        until = min(last_row + _AT_ONCE, newest)
        connection.exec_driver_sql(_EXTEND, (last_row, until))
        connection.exec_driver_sql(_SET_END, (until,))
        return True


def drop(connection: Connection) -> None:
    """Drops the index, if it is there. Needed before the table of ids is recreated, because the table's row ids change
    then."""
    _execute(connection, _DROP)


def find(connection: Connection, parts: Iterable[str], most: int) -> list[int] | None:
    """Returns the row ids of all texts that may contain one of `parts`, ignoring case. Returns None if the index does
    not exist, if a part is shorter than a trigram, or if more than `most` texts match."""
    wanted = [_pieces(part) for part in parts]
    if not all(wanted) or not _is_there(connection):
        return None
    expression = " OR ".join(f"({' AND '.join(pieces)})" for pieces in wanted)
    found = connection.exec_driver_sql(_FIND, (expression, most + 1)).scalars().all()
    return list(found) if len(found) <= most else None


def _is_there(connection: Connection) -> bool:
    return connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = ?", (_END,)).first() is not None


def _is_possible(connection: Connection) -> bool:
    """Returns whether this SQLite has FTS5 with the trigram tokenizer (SQLite 3.34 and later, if compiled in)."""
    modules = connection.exec_driver_sql("SELECT name FROM pragma_module_list").scalars().all()
    return "fts5" in modules and (connection.dialect.server_version_info or ()) >= (3, 34)


def _pieces(part: str) -> list[str]:
    """Returns some trigrams of the text, quoted; none if the text is shorter than a trigram. Returns at most
    _MOST_PIECES, because the database reads a long list for each trigram."""
    last = len(part) - _LENGTH
    starts = [last, *range(0, last, _LENGTH)][:_MOST_PIECES] if last >= 0 else []
    return ['"' + part[start : start + _LENGTH].replace('"', '""') + '"' for start in starts]


def _execute(connection: Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)
