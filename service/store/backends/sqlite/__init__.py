"""The backend for SQLite: one file, one writer at a time. From its beginning, a writing transaction excludes all other
writing transactions, so `lock` does nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, ColumnElement, Connection, Engine, Integer, Table, func, literal_column, select
from sqlalchemy.dialects import sqlite

from service.store.backends.backend import Backend, Rebuilt, create
from service.store.backends.sqlite import rebuild, sessions, trigram_index
from service.store.backends.sqlite.sessions import Sessions
from service.store.errors import StoreError, redact_url

_ROW_ID: Final[ColumnElement[int]] = literal_column("transactional_ids.rowid")


class Sqlite(Backend):
    data_version = "PRAGMA data_version"
    row_id = Integer()
    """SQLite numbers rows only in a column whose type is exactly INTEGER."""
    numbers_once = {"sqlite_autoincrement": True}  # noqa: RUF012 - nobody changes it

    def resolve(self, url: URL) -> URL | None:
        if url.drivername != "sqlite":
            return None
        if url.database in (None, "", ":memory:"):
            raise StoreError(f"store {redact_url(url)}: needs a file, because several processes share the store")
        folder = Path(url.database or "").parent
        try:
            is_there = folder.is_dir()
        except OSError as error:  # the name is too long, or access is denied
            raise StoreError(f"store {redact_url(url)}: {folder}: {error.strerror}") from error
        if not is_there:
            raise StoreError(f"store {redact_url(url)}: no directory {folder}")
        return url

    def open_writer(self, url: URL, *, may_create: bool, wait_s: float) -> Engine:
        engine = create(url, sessions.arguments(url, wait_s=wait_s), pool_size=1, max_overflow=0)
        Sessions(engine, writes=True, may_create=may_create)
        return engine

    def open_reader(self, url: URL, *, wait_s: float) -> Engine:
        engine = create(url, sessions.arguments(url, wait_s=wait_s))
        Sessions(engine, writes=False, may_create=False)
        return engine

    def rebuild(self, url: URL, now_ms: int) -> Rebuilt:
        return rebuild.rebuild(url, now_ms)

    def insert(self, table: Table) -> sqlite.Insert:
        return sqlite.insert(table)

    def larger(self, column_element: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.max(column_element, other)

    def smaller(self, column_element: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.min(column_element, other)

    def extend_text_index(self, engine: Engine) -> bool:
        return trigram_index.extend(engine)

    def drop_text_index(self, connection: Connection) -> None:
        trigram_index.drop(connection)

    def find_texts(self, connection: Connection, parts: Iterable[str], most: int) -> ColumnElement[bool] | None:
        found = trigram_index.find(connection, parts, most)
        if found is None:
            return None
        return _ROW_ID.in_(select(func.json_each(json.dumps(found)).table_valued("value").c.value))


BACKEND: Final = Sqlite()
