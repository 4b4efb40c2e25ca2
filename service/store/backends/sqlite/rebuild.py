"""Rebuilds a damaged store. The job then reads the transaction log again from its start. What the log does not contain
(the audit, findings, history, counts) is copied as far as it can be read."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from stat import S_IMODE
from typing import Final

from alembic import command
from sqlalchemy import URL

from service.domain.source_state import SourceName
from service.store import migrate
from service.store.backends.backend import Rebuilt, SalvagedTable
from service.store.backends.sqlite.salvage import DamagedFile, columns_of
from service.store.engine import open_engine
from service.store.errors import StoreError, StoreUnavailable, redact_url

_LOCK_WAIT_S: Final = 30.0
_BESIDE: Final = ("-wal", "-shm")
_REVISIONS: Final = "alembic_version"

_SEQUENCES: Final = "sqlite_sequence"

_CLUSTERS: Final = "clusters"
_COUNTERS: Final = "counters"
_POSITIONS: Final = "log_partitions"
_COUNTED: Final = (
    _COUNTERS,
    "transactional_ids",
    "left_behind_records",
    "coordinator_states",
    "open_participants",
    "application_totals",
    _POSITIONS,
)
"""Tables that are emptied if the table of clusters, of counters, or of positions in the logs cannot be read
completely."""

_OF_APPLICATIONS: Final = "application_states"

_LARGEST_CLUSTER_ID: Final = 10_000
"""Highest cluster number for which a missing cluster is added. A row with a higher number comes from a damaged page."""


def _is_counted(tables: Sequence[SalvagedTable]) -> bool:
    return all(table.is_whole for table in tables if table.table in (_CLUSTERS, _COUNTERS, _POSITIONS))


def rebuild(url: URL, now_ms: int) -> Rebuilt:
    """Copies the readable rows to a new file, renames the old file, and moves the new file to the old path. Raises the
    errors of `service.store.migrate.rebuild`."""
    name, path = redact_url(url), url.database or ""
    if not Path(path).is_file():
        raise StoreUnavailable(f"store {name}: there is no such file; `txnscope migrate` creates it")
    fresh = f"{path}.rebuilt"
    _remove(fresh)
    try:
        with closing(DamagedFile(path, _LOCK_WAIT_S)) as old:
            tables = _bring_over(old, fresh, name, now_ms)
            aside = _take_place(fresh, path, now_ms, name)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"store {name}: {error}") from error
    finally:
        _remove(fresh)
    return Rebuilt(tables, aside, _is_counted(tables))


def _bring_over(old: DamagedFile, fresh: str, name: str, now_ms: int) -> tuple[SalvagedTable, ...]:
    """Makes the new file: creates the tables of the old file's revision, copies the old rows, then migrates the new
    file like any store. Raises StoreError if this version does not know the revision."""
    revision = old.revision() or migrate.head() or ""
    if not migrate.is_known(revision):
        raise StoreError(migrate.unknown_text(name, revision))
    engine = open_engine(f"sqlite:///{fresh}")
    try:
        with engine.begin() as connection:
            command.upgrade(migrate.config(connection), revision)
        with closing(sqlite3.connect(fresh)) as new:
            tables = tuple(_copy(old, new))
            _prepare_reading(new, tables)
            _name_lost_clusters(new, now_ms)
        migrate.upgrade(engine)
        return tables
    finally:
        engine.dispose()  # closing the last connection moves the whole write-ahead log into the file


def _copy(old: DamagedFile, new: sqlite3.Connection) -> Iterator[SalvagedTable]:
    named = new.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> ?", (_REVISIONS,)).fetchall()
    for (table,) in named:
        if table == _SEQUENCES:  # the highest number ever given, also to deleted rows: copying rows does not restore it
            new.execute(f"DELETE FROM {_SEQUENCES}")  # noqa: S608
        columns = [column for column in old.columns(table) if column in columns_of(new, table)]
        yield _copy_table(old, new, table, columns) if columns else SalvagedTable(table, 0, is_whole=False)
        new.commit()


def _copy_table(old: DamagedFile, new: sqlite3.Connection, table: str, columns: Sequence[str]) -> SalvagedTable:
    """Copies the rows. Rows that violate a constraint are left out: they come from damaged pages."""
    names, marks = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(columns))
    insert = f'INSERT OR IGNORE INTO "{table}" ({names}) VALUES ({marks})'  # noqa: S608 - names of our own schema
    reading = old.rows(table, columns)
    copied = new.executemany(insert, reading).rowcount
    return SalvagedTable(table, max(copied, 0), reading.is_whole)


def _prepare_reading(new: sqlite3.Connection, tables: Sequence[SalvagedTable]) -> None:
    """Makes the job read the transaction log again from its start. Records that were counted are not counted again,
    unless clusters, counters or positions could not be read completely: then all counting starts again. Ends every
    lease, because its holder has the old store open."""
    new.execute("UPDATE leases SET epoch = epoch + 1, released = 1")
    if _is_counted(tables):
        new.execute(f"UPDATE {_POSITIONS} SET read_at_ms = 0 WHERE source = ?", (SourceName.TRANSACTION_LOG,))  # noqa: S608
    else:
        for table in _COUNTED:
            new.execute(f"DELETE FROM {table}")  # noqa: S608
        new.execute("UPDATE clusters SET counted_since_ms = NULL")
    _count_applications(new)
    new.commit()


def _count_applications(new: sqlite3.Connection) -> None:
    """Counts the ids of each application anew, because the writers only add to these numbers and subtract from them."""
    if columns_of(new, _OF_APPLICATIONS):  # a store of an older version may have none
        new.execute(f"DELETE FROM {_OF_APPLICATIONS}")  # noqa: S608
        new.execute(
            f"INSERT INTO {_OF_APPLICATIONS} (cluster_id, application, framework, state, ids)"  # noqa: S608
            " SELECT cluster_id, application, framework, state, COUNT(*) FROM transactional_ids"
            " WHERE application IS NOT NULL AND framework IS NOT NULL"
            " GROUP BY cluster_id, application, framework, state"
        )


def _name_lost_clusters(new: sqlite3.Connection, now_ms: int) -> None:
    """Adds a cluster `lost-N` for each cluster number without a readable cluster, because its audit and history are
    still needed. Deletes rows whose cluster number is not in 1 to _LARGEST_CLUSTER_ID."""
    tables = [table for (table,) in new.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    for table in tables:
        if "cluster_id" in columns_of(new, table):
            new.execute(
                f"INSERT INTO {_CLUSTERS} (id, name, kafka_cluster_id, bound_at_ms)"  # noqa: S608
                f" SELECT DISTINCT cluster_id, 'lost-' || cluster_id, 'lost-' || cluster_id, ? FROM {table}"
                f" WHERE cluster_id BETWEEN 1 AND ? AND cluster_id NOT IN (SELECT id FROM {_CLUSTERS})",
                (now_ms, _LARGEST_CLUSTER_ID),
            )
            new.execute(f"DELETE FROM {table} WHERE cluster_id NOT IN (SELECT id FROM {_CLUSTERS})")  # noqa: S608
    new.commit()


def _take_place(fresh: str, path: str, now_ms: int, name: str) -> str:
    """Renames the old file and its write-ahead log, and moves the new file, with the same owner and mode, to the old
    path. Returns the old file's new path. Raises StoreError if another process has created a file at the old path
    meanwhile."""
    old = Path(path).stat()
    with suppress(PermissionError):  # only an administrator, who may run this for the service, can change the owner
        os.chown(fresh, old.st_uid, old.st_gid)
    Path(fresh).chmod(S_IMODE(old.st_mode))
    aside = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now_ms / 1000))}"
    Path(path).rename(aside)
    for suffix in _BESIDE:  # under its old name the log would be taken for that of the new file
        with suppress(FileNotFoundError):
            Path(path + suffix).rename(aside + suffix)
    if Path(path).exists():
        raise StoreError(
            f"store {name}: another process created a new file meanwhile: stop that process, and rename {aside} back"
        )
    Path(fresh).rename(path)
    return aside


def _remove(path: str) -> None:
    for one in (path, *(path + suffix for suffix in _BESIDE)):
        Path(one).unlink(missing_ok=True)
