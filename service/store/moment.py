"""Which state of the store a reader sees, as a value: as long as it is the same, so is the store."""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.store.errors import StoreError

_QUERIES: Final = {
    "sqlite": "PRAGMA data_version",  # comparable on one connection only
    "postgresql": "SELECT pg_current_snapshot()::text",  # any transaction of the server that writes changes it
}

_TURN_S: Final = 0.2
"""Longest wait for the others who ask: a host that drops packets must not hold up everybody in turn."""


class Moment(NamedTuple):
    connection: int
    state: str


class Moments:
    """Tells the moments of the store behind `engine`, over one connection that it keeps. Safe to share by threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._query = _QUERIES[engine.dialect.name]
        self._turn = threading.Lock()
        self._connection: Connection | None = None
        self._connected = 0

    def current(self) -> Moment | None:
        """Returns the moment; None if the store does not answer, or if others have waited long for its answer."""
        if not self._turn.acquire(timeout=_TURN_S):
            return None
        try:
            if self._connection is None:
                self._connection, self._connected = self._engine.connect(), self._connected + 1
            with self._connection.begin():
                state = self._connection.exec_driver_sql(self._query).scalar_one()
            return Moment(self._connected, str(state))
        except (SQLAlchemyError, StoreError):
            self._drop()
            return None
        finally:
            self._turn.release()

    def close(self) -> None:
        with self._turn:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
        self._connection = None
