"""Fixtures that give every test its own store: without tables, with the newest tables, or also with a cluster whose
lease is held."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from sqlalchemy import Engine

from service.domain.source_state import SourceName
from service.domain.transaction_log.states import TOPIC
from service.store import clusters, lease, progress
from service.store.backends import URL_FORMS
from service.store.engine import open_engine, open_reader
from service.store.lease import Lease
from service.store.writers.transaction_log import TransactionLogWriter
from tests.helpers.migrated import migrated
from tests.helpers.next_version import REVISION, as_next_version
from tests.helpers.postgres import Postgres
from tests.service.store.logs import NOW_MS

BACKENDS = tuple(URL_FORMS)


def only_on(backend: str, fixture: str = "url") -> pytest.MarkDecorator:
    """Makes a test run only on the database `backend`, for example because the other one lacks the tested feature.
    `fixture` is the fixture that otherwise runs the test on each database."""
    return pytest.mark.parametrize(fixture, [backend], indirect=True)


@contextmanager
def new_store(request: pytest.FixtureRequest, directory: Path, *, is_empty: bool = False) -> Iterator[str]:
    """Yields the URL of a new store of the kind `request.param`. Its connections wait at most 10 ms for a lock."""
    if request.param == "sqlite":
        yield f"sqlite:///{directory / 'store.db'}?timeout=0.01"
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.database(is_empty=is_empty) as url:
        yield f"{url}&options={quote('-c lock_timeout=10ms')}"


def patient(url: str) -> str:
    """Returns the URL of a `new_store` without its lock timeout, so that the longer one of production applies."""
    return re.split(r"[?&](?:timeout|options)=", url)[0]


class Cluster(NamedTuple):
    """One cluster of a store, and the writer that holds its lease."""

    engine: Engine
    id: int
    lease: Lease
    writer: TransactionLogWriter

    def positions(self) -> dict[int, progress.Position]:
        with self.engine.connect() as connection:
            return progress.positions(connection, self.id, SourceName.TRANSACTION_LOG, TOPIC)

    def start(self, ends: dict[int, int], log_start: int = 0) -> None:
        """Records the first start of the job, with a log partition from `log_start` to `ends[partition]` for each entry
        of `ends`."""
        starts = [progress.PartitionStart(p, "T", 1, 0, log_start, end) for p, end in ends.items()]
        progress.start_positions(self.engine, self.lease, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS)


def take_over(engine: Engine, cluster_id: int, owner: str = "standby", now_ms: int = NOW_MS) -> Lease | None:
    """Takes over the lease at once, as if its newest renewal had expired. Returns the lease, or None if the holder
    renewed it meanwhile."""
    return lease.acquire(engine, cluster_id, owner, now_ms, expired=lease.newest_renewal(engine, cluster_id))


@pytest.fixture
def next_version(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Yields a function that adds a revision to the migrations, as the code's next version would. The function returns
    the name of the revision."""
    with ExitStack() as stack:

        def begin() -> str:
            stack.enter_context(as_next_version(tmp_path))
            return REVISION

        yield begin


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yields the URL of a new store: on PostgreSQL, a database with the newest tables; on SQLite, a file that does not
    exist yet. A test that uses this fixture runs on every kind of database."""
    with new_store(request, tmp_path) as url:
        yield url


@pytest.fixture(params=BACKENDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yields the URL of a database without tables. On SQLite, the file does not exist yet."""
    with new_store(request, tmp_path, is_empty=True) as url:
        yield url


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = migrated(open_engine(url))
    yield engine
    engine.dispose()


@pytest.fixture
def reader(url: str, engine: Engine) -> Iterator[Engine]:
    reader = open_reader(url)
    yield reader
    reader.dispose()


@pytest.fixture
def new_cluster(engine: Engine) -> Callable[[], Cluster]:
    """Returns a function that creates a cluster. Clusters share no rows, so one store serves any number of them."""
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
