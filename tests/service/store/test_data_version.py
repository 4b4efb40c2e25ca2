"""The version of the store stays the same until something is committed, whoever commits it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from service.store import clusters
from service.store.engine import DataVersions, open_reader
from service.store.errors import StoreUnavailable
from tests.helpers.waiting import LIMIT_S
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import NOW_MS


@pytest.fixture
def versions(url: str, cluster: Cluster) -> Iterator[DataVersions]:
    engine = open_reader(url)
    versions = DataVersions(engine)
    yield versions
    versions.close()
    engine.dispose()


def test_a_commit_begins_another_version(versions: DataVersions, cluster: Cluster) -> None:
    seen = [versions.current()]
    for name in ("payments", "stock"):
        clusters.bind(cluster.engine, name, f"kafka-{name}", NOW_MS)
        seen.append(versions.current())
    assert None not in seen
    assert len(set(seen)) == 3


@only_on("sqlite")
def test_reading_begins_no_other_version(versions: DataVersions, cluster: Cluster, url: str) -> None:
    before = versions.current()
    engine = open_reader(url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM clusters").scalar_one() == 1
    engine.dispose()
    assert versions.current() == before


def test_readers_do_not_queue_while_the_store_does_not_answer() -> None:
    asked, answers = threading.Event(), threading.Event()

    def connect() -> Mock:
        asked.set()
        answers.wait(LIMIT_S)
        raise StoreUnavailable

    engine = Mock()
    engine.dialect.name = "postgresql"
    engine.connect.side_effect = connect
    versions = DataVersions(engine)
    first = threading.Thread(target=versions.current)
    first.start()
    try:
        assert asked.wait(LIMIT_S)
        assert versions.current() is None
        assert first.is_alive()
    finally:
        answers.set()
        first.join()


def test_a_version_of_a_new_connection_is_another_one(versions: DataVersions) -> None:
    before = versions.current()
    versions.close()
    assert versions.current() not in (None, before)
