"""Fixtures that several packages share, such as real servers. A server is started only if a test needs it."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from deploy.demo.broker import Broker
from tests.helpers.brokers import VERSIONS, free_port, new_cluster_id
from tests.helpers.leftovers import Guard
from tests.helpers.partitions import WithPartitions
from tests.helpers.postgres import Postgres
from tests.helpers.progress import ProgressPlugin
from tests.helpers.turns import PARTS, TURN, left_to_others

# makes failed assertions of helpers show their values, as in tests
pytest.register_assert_rewrite("tests.deploy.demo", "tests.harm", "tests.integration", "tests.lab")

_GUARD = pytest.StashKey[Guard]()

MakeBroker = Callable[..., Broker]

# the time of one example depends on the machine, not on the correctness of the code
settings.register_profile("without_deadline", settings.default, deadline=None)
settings.load_profile("without_deadline")


def pytest_configure(config: pytest.Config) -> None:
    """Restores the handling of Ctrl-C. Without this, tests that a shell starts in the background, and their child
    processes, would ignore Ctrl-C.

    Under pytest-xdist, only the main process reports progress and ends leftover processes.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # until all tests are collected
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(ProgressPlugin(config))
        config.stash[_GUARD] = Guard()


def pytest_collection_finish() -> None:
    """Excludes the collected tests from garbage collection, because they stay to the end. This saves a sixth of the
    processor time."""
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str | None:
    if TURN is None:
        return None
    return f"of the longest tests, one in {PARTS} runs (turn {TURN}); `make test TURN=all` runs all"


def pytest_unconfigure(config: pytest.Config) -> None:
    if guard := config.stash.get(_GUARD, None):
        for process in guard.end():
            print("ended a process that the tests had left:", process)  # noqa: T201


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """If TXNSCOPE_TEST_TURN is set, leaves most of the tests with the mark `in_turns` to other runs. Puts the longest
    test files first (those with Spark, then those with brokers), so that all workers end at about the same
    time."""
    units = {item: _unit(item, *mark.args) for item in items if (mark := item.get_closest_marker("in_turns"))}
    files = {unit for unit in units.values() if "::" not in unit}
    left = left_to_others(files, TURN) | left_to_others({*units.values()} - files, TURN)
    config.hook.pytest_deselected(items=[item for item in items if units.get(item) in left])
    items[:] = [item for item in items if units.get(item) not in left]
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("spark", "broker")])


def _unit(item: pytest.Item, unit: str = "test") -> str:
    return item.nodeid if unit == "test" else item.nodeid.partition("::")[0]


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Broker]]:
    """Yields a function that returns the shared broker of a version, and starts this broker at the first call. Tests
    use ids and topics of their own, and never stop the broker."""
    with ExitStack() as running:

        @cache
        def of(version: str) -> Broker:
            return running.enter_context(Broker(version, free_port(), tmp_path_factory.mktemp(f"kafka-{version}")))

        yield of


@pytest.fixture
def broker_431(brokers: Callable[[str], Broker]) -> Broker:
    return brokers("4.3.1")


@pytest.fixture
def broker_392(brokers: Callable[[str], Broker]) -> Broker:
    return brokers("3.9.2")


@pytest.fixture(params=VERSIONS)
def broker(request: pytest.FixtureRequest, brokers: Callable[[str], Broker]) -> Broker:
    """The shared broker. A test that uses this fixture runs on each of VERSIONS, unless it has the mark `on_broker`."""
    return brokers(request.param)


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Yields a function that starts a broker for one test: `make_broker("4.3.1", **{"some.property": "value"})`. Each
    broker is a Kafka cluster of its own, and is discarded when the test ends."""
    with ExitStack() as running:

        def make(version: str = "4.3.1", **properties: Any) -> Broker:
            port = free_port()
            broker = Broker(version, port, tmp_path / f"kafka-{port}", properties, cluster_id=new_cluster_id())
            running.callback(broker.discard)
            return broker.start()

        yield make


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Starts one shared PostgreSQL server. Tests use databases of their own (`postgres.database()`), and never stop the
    server."""
    with Postgres() as server:
        yield server


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a SQLite store in the test's own directory. The store's own tests run on every kind of database."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def cluster(request: pytest.FixtureRequest, url: str) -> Iterator[WithPartitions]:
    """A cluster in a store of its own. The mark `cluster`, mostly set for a whole file, has these parameters: `of`
    makes the cluster from the URL; `stored` stores the initial data; all other parameters are passed to `of`."""
    mark = request.node.get_closest_marker("cluster")
    arguments = {"of": WithPartitions, "stored": lambda _: None} | (mark.kwargs if mark else {})
    make, store = arguments.pop("of"), arguments.pop("stored")
    cluster: WithPartitions = make(url, **arguments)
    store(cluster)
    yield cluster
    cluster.close()
