"""A moment of the store stays the same until something is committed, whoever commits it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from service.store import clusters
from service.store.engine import open_reader
from service.store.errors import StoreUnavailable
from service.store.moment import Moments
from tests.helpers.waiting import LIMIT_S
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import NOW_MS


@pytest.fixture
def moments(url: str, cluster: Cluster) -> Iterator[Moments]:
    engine = open_reader(url)
    moments = Moments(engine)
    yield moments
    moments.close()
    engine.dispose()


def test_a_commit_begins_another_moment(moments: Moments, cluster: Cluster) -> None:
    seen = [moments.current()]
    for name in ("payments", "stock"):
        clusters.bind(cluster.engine, name, f"kafka-{name}", NOW_MS)
        seen.append(moments.current())
    assert None not in seen
    assert len(set(seen)) == 3


@only_on("sqlite")
def test_reading_begins_no_other_moment(moments: Moments, cluster: Cluster, url: str) -> None:
    before = moments.current()
    engine = open_reader(url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM clusters").scalar_one() == 1
    engine.dispose()
    assert moments.current() == before


def test_who_asks_while_the_store_does_not_answer_does_not_wait_for_those_before() -> None:
    asked, answers = threading.Event(), threading.Event()

    def connect() -> Mock:
        asked.set()
        answers.wait(LIMIT_S)
        raise StoreUnavailable

    engine = Mock()
    engine.dialect.name = "postgresql"
    engine.connect.side_effect = connect
    moments = Moments(engine)
    first = threading.Thread(target=moments.current)
    first.start()
    try:
        assert asked.wait(LIMIT_S)
        assert moments.current() is None
        assert first.is_alive()
    finally:
        answers.set()
        first.join()


def test_a_moment_of_a_new_connection_is_another_one(moments: Moments) -> None:
    before = moments.current()
    moments.close()
    assert moments.current() not in (None, before)
