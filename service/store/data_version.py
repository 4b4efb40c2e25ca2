"""The version of the data that a reader sees: as long as it is the same, so is the store."""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.store.backends import backend_of
from service.store.errors import StoreError

_TURN_S: Final = 0.2
"""Longest wait for the others who ask: a host that drops packets must not hold up everybody in turn."""


class DataVersion(NamedTuple):
    """A version of the store, comparable with others of the same reader."""

    connection: int
    version: str


class DataVersions:
    """Reads the version of the store behind `engine`, over one connection that it keeps. Safe to share by threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._query = backend_of(engine).data_version
        self._turn = threading.Lock()
        self._connection: Connection | None = None
        self._connected = 0

    def current(self) -> DataVersion | None:
        """Returns the version; None if the store does not answer, or if others have waited long for its answer."""
        if not self._turn.acquire(timeout=_TURN_S):
            return None
        try:
            if self._connection is None:
                self._connection, self._connected = self._engine.connect(), self._connected + 1
            with self._connection.begin():
                version = self._connection.exec_driver_sql(self._query).scalar_one()
            return DataVersion(self._connected, str(version))
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
