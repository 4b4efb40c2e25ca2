"""Makes empty stores on both databases, and measures the size of a store on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from service.store import clusters, lease, migrate
from service.store.engine import open_engine
from tests.helpers.postgres import Postgres

STORES: Final = ("sqlite", "postgresql")


@contextmanager
def database(store: str) -> Iterator[str]:
    """Yields the URL of an empty database of the kind `store`, and removes the database afterwards. For PostgreSQL,
    starts a server whose files are durable, on disk. If `store` is itself a URL, yields `store`."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory(prefix="txnscope-bench-") as directory:
            yield f"sqlite:///{directory}/store.db"
    elif store == "postgresql":
        with Postgres(is_durable=True) as server, server.database(is_empty=True) as url:
            yield url
    else:
        yield store


@contextmanager
def opened(store: str) -> Iterator[Engine]:
    with database(store) as url:
        engine = open_engine(url)
        yield engine
        engine.dispose()


def begun(engine: Engine, name: str, bound_at_ms: int, now_ms: int) -> lease.Lease:
    """Creates the tables and a cluster. Returns the cluster's lease."""
    migrate.upgrade(engine)
    held = lease.acquire(engine, clusters.bind(engine, name, name, bound_at_ms), "bench", now_ms)
    assert held is not None
    return held


def size_bytes(engine: Engine) -> int:
    if engine.dialect.name == "sqlite":
        return sum(path.stat().st_size for path in Path(engine.url.database or "").parent.glob("*.db*"))
    with engine.connect() as connection:
        return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
