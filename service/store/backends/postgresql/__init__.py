"""The backend for PostgreSQL: a server, where writers lock rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    LargeBinary,
    Select,
    String,
    Table,
    bindparam,
    func,
    select,
    text,
    true,
)
from sqlalchemy.dialects import postgresql

from service.store.backends.backend import Backend, Lock, Rebuilt, create
from service.store.backends.postgresql import copy_in, sessions
from service.store.errors import StoreError, StoreUnavailable, redact_url
from service.store.many_rows import Upsert

_LOCKS: Final = {  # the numbers may be any, but are the same for every process
    Lock.MIGRATE: "SELECT pg_advisory_xact_lock(7489071206341)",
    Lock.BIND_CLUSTER: "SELECT pg_advisory_xact_lock(7489071206342)",
    Lock.NUMBER_EVENTS: "LOCK TABLE finding_events IN SHARE ROW EXCLUSIVE MODE",
    Lock.AUDIT: "LOCK TABLE audit IN ROW EXCLUSIVE MODE",
}

_ALL_UNUSED_S: Final = 30.0
"""Longest time (s) in which a migration tries to lock all tables at once."""

_AGAIN_S: Final = 0.02

_END_STOPPED_WRITER: Final = text(
    "SELECT pg_terminate_backend(session.pid)"
    " FROM leases JOIN pg_locks writer ON writer.locktype = 'transactionid' AND writer.granted"
    "  AND writer.transactionid = leases.xmax"
    " JOIN pg_stat_activity session ON session.pid = writer.pid"
    " WHERE leases.cluster_id = :cluster_id"
    "  AND session.usename = current_user AND session.wait_event = 'ClientRead'"
)


class Postgresql(Backend):
    data_version = "SELECT pg_current_snapshot()::text"
    """The result of this query changes with every writing transaction of the server."""
    name = String(collation="C")

    def resolve(self, url: URL) -> URL | None:
        driver = "postgresql+psycopg"
        return url.set(drivername=driver) if url.drivername in ("postgresql", driver) else None

    def open_writer(self, url: URL, *, may_create: bool, wait_s: float) -> Engine:
        engine = _create(url, sessions.writer_arguments(url, wait_s=wait_s), paramstyle="format")
        sessions.prepare_writer(engine)
        copy_in.listen(engine)
        return engine

    def open_reader(self, url: URL, *, wait_s: float) -> Engine:
        engine = _create(url, sessions.reader_arguments(url, wait_s=wait_s), isolation_level="REPEATABLE READ")
        sessions.prepare_reader(engine)
        return engine

    def rebuild(self, url: URL, now_ms: int) -> Rebuilt:
        raise StoreError(f"store {redact_url(url)}: --rebuild is for SQLite files; {sessions.REMEDY}")

    def insert(self, table: Table) -> postgresql.Insert:
        return postgresql.insert(table)

    def bulk_options(self, upsert: Upsert, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        return copy_in.options(upsert, connection.dialect, rows)

    def select_ids(self, table: Table, columns: Sequence[str]) -> Select[Any]:
        # PostgreSQL would read the whole table if it grew by 100,000 rows since its statistics were made. OFFSET keeps
        # PostgreSQL from merging the inner query, which searches the index once for each id.
        ids = bindparam("ids", type_=postgresql.ARRAY(LargeBinary))
        wanted = func.unnest(ids).table_valued("id").render_derived(name="wanted")
        of_one = table.c.cluster_id == bindparam("cluster"), table.c.transactional_id == wanted.c.id
        found = select(*(table.c[name] for name in columns)).where(*of_one).offset(0).lateral("found")
        return select(*found.c).select_from(wanted.join(found, true()))

    def lock(self, connection: Connection, work: Lock) -> None:
        connection.exec_driver_sql(_LOCKS[work])

    def exclude_others(self, connection: Connection, tables: Sequence[str]) -> None:
        # never waits for one table with others locked: that would be a deadlock with a reader of two tables
        names = ", ".join(f'"{name}"' for name in tables)
        give_up_s = time.monotonic() + _ALL_UNUSED_S
        while True:
            try:
                with connection.begin_nested():
                    connection.exec_driver_sql(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE NOWAIT")
                return
            except StoreUnavailable:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(_AGAIN_S)

    def commit_early(self, connection: Connection) -> None:
        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")

    def end_stopped_writer(self, engine: Engine, cluster_id: int) -> None:
        with engine.begin() as connection:
            connection.execute(_END_STOPPED_WRITER, {"cluster_id": cluster_id})

    def check_texts(self, connection: Connection) -> None:
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise StoreError(
                f"store {redact_url(connection.engine.url)}: the database's encoding is {encoding}"
                " and has to be UTF8: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
            )


def _create(url: URL, arguments: dict[str, str | int], **options: Any) -> Engine:
    try:
        return create(url, arguments, pool_pre_ping=True, **options)
    except ModuleNotFoundError as error:
        raise StoreError(f"store {redact_url(url)}: needs psycopg (pip install 'psycopg[binary]')") from error


BACKEND: Final = Postgresql()
