"""Listeners ask for what follows a number: no event may appear behind one that they have heard already."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from sqlalchemy import event

from service.store.engine import open_reader
from service.store.finding_events import events_after
from tests.helpers.findings import WithFindings, observe
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import LIMIT_S, wait_until

WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def test_events_of_two_clusters_appear_in_the_order_of_their_numbers(postgres: Postgres) -> None:
    """Each cluster has a judge of its own, and PostgreSQL gives numbers before it commits."""
    held, go_on = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        held.set()
        assert go_on.wait(LIMIT_S)

    with (
        postgres.database() as url,
        closing(WithFindings(url, "first")) as first,
        closing(WithFindings(url, "second")) as second,
        ThreadPoolExecutor(2) as threads,
    ):
        reader = open_reader(url)
        for cluster in (first, second):
            cluster.read()
        event.listen(first.engine, "commit", wait)
        slow = threads.submit(first.see, observe())
        assert held.wait(LIMIT_S)
        other = threads.submit(second.see, observe())

        def has_come_to_rest() -> bool:
            with reader.connect() as connection:
                return other.done() or connection.exec_driver_sql(WAITS).scalar_one() > 0

        try:
            wait_until(has_come_to_rest, bool, "the second judge to have written, or to wait")
            with reader.connect() as connection:
                assert events_after(connection, 0, 10) == [], "not number 2 before number 1"
        finally:
            go_on.set()
        slow.result(LIMIT_S)
        other.result(LIMIT_S)
        with reader.connect() as connection:
            reported = events_after(connection, 0, 10)
        reader.dispose()
    assert [(one.sequence, one.cluster) for one in reported] == [(1, "first"), (2, "second")]
