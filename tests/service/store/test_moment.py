"""A moment of the store stays the same until something is committed, whoever commits it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.store import clusters
from service.store.engine import open_reader
from service.store.moment import Moments
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


def test_a_moment_of_a_new_connection_is_another_one(moments: Moments) -> None:
    before = moments.current()
    moments.close()
    assert moments.current() not in (None, before)
