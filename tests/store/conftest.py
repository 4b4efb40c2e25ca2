"""A store of its own for every test: empty, at head, with one cluster under lease."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import Engine

from service.domain.transaction_log import SOURCE, TOPIC
from service.store import clusters, lease, migrate, progress
from service.store.engine import open_engine
from service.store.lease import Lease
from service.store.writer import TransactionLogWriter
from tests.store.logs import NOW_MS


class Cluster(NamedTuple):
    """One cluster of a store, and the writer that holds its lease."""

    engine: Engine
    id: int
    lease: Lease
    writer: TransactionLogWriter

    def positions(self) -> dict[int, progress.Position]:
        return progress.read_positions(self.engine, self.id, SOURCE, TOPIC)

    def start(self, ends: dict[int, int], log_start: int = 0) -> None:
        """The very first start, with logs that reach from `log_start` to `ends` by partition."""
        starts = [progress.PartitionStart(p, "T", 1, 0, log_start, end) for p, end in ends.items()]
        progress.start_positions(self.engine, self.lease, SOURCE, TOPIC, starts, NOW_MS)


@pytest.fixture(params=["sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a database that is not there yet; a lock is not waited for."""
    return f"{request.param}:///{tmp_path / 'store.db'}?timeout=0.01"


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    migrate.upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def new_cluster(engine: Engine) -> Callable[[], Cluster]:
    """Clusters share nothing, so one store serves any number of them."""
    numbers = itertools.count()

    def bind() -> Cluster:
        name = f"cluster-{next(numbers)}"
        number = clusters.bind(engine, name, f"kafka-{name}", NOW_MS)
        held = lease.acquire(engine, number, "driver", NOW_MS)
        assert held is not None
        return Cluster(engine, number, held, TransactionLogWriter(engine, held, runs_at_once=3))

    return bind


@pytest.fixture
def cluster(new_cluster: Callable[[], Cluster]) -> Cluster:
    return new_cluster()
