"""A PostgreSQL server that goes away, and writers that meet in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, event

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogBatch, Reject
from service.store import clusters, lease, schema
from service.store.engine import LeaseLost, StoreUnavailable, open_engine, open_reader
from service.store.many_rows import COPIES_FROM
from service.store.queries import transactions
from service.store.writers.transaction_log import TransactionLogWriter
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import LIMIT_S
from tests.service.store.conftest import Cluster, only_on, patient, take_over
from tests.service.store.logs import NOW_MS, batch, entry, everything, read, transaction

LATER_MS = NOW_MS + 1


def large_batch() -> LogBatch:
    """What is written for it takes COPY as well as single rows."""
    log = [e for n in range(COPIES_FROM) for e in transaction(3 * n, b"id-%d" % n, start_ms=n, pid=n)]
    end = len(log)
    log.append(entry(end, states.ONGOING, b"id-3", pid=3))
    return batch(log, read(0, end + 1), rejects=[Reject(0, 0, 5, "bad_crc", None, None, b"\x00")])


def before_statement(engine: Engine, number: int, do: Callable[[], None]) -> Callable[[], int]:
    """Do it before the statement (or commit) of this number, counted from now; stops, and tells how many there were."""
    seen = 0

    def on_statement(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            do()

    for name in ("before_cursor_execute", "commit"):
        event.listen(engine, name, on_statement)

    def stop() -> int:
        for name in ("before_cursor_execute", "commit"):
            event.remove(engine, name, on_statement)
        return seen

    return stop


@only_on("postgresql")
def test_a_connection_lost_before_any_statement_costs_nothing_but_the_attempt(
    new_cluster: Callable[[], Cluster], postgres: Postgres
) -> None:
    calm = new_cluster()
    count = before_statement(calm.engine, 0, lambda: None)
    calm.writer.apply(large_batch(), NOW_MS)
    statements = count()
    expected = everything(calm.engine, calm.id)
    assert statements > 10
    for number in range(1, statements + 1):
        cluster = new_cluster()
        stop = before_statement(cluster.engine, number, lambda: cut_off(postgres, cluster.engine))  # noqa: B023
        with pytest.raises(StoreUnavailable):
            cluster.writer.apply(large_batch(), NOW_MS)
        stop()
        assert cluster.positions() == {}
        assert cluster.writer.apply(large_batch(), NOW_MS).ended.commits == COPIES_FROM
        assert everything(cluster.engine, cluster.id) == expected


def cut_off(postgres: Postgres, engine: Engine) -> None:
    postgres.execute(
        f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{engine.url.database}'"
    )


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def test_work_goes_on_after_a_restart_of_the_server(own_server: Postgres) -> None:
    with own_server.database() as url:
        engine, reader = open_engine(url), open_reader(url)
        number = clusters.bind(engine, "c", "c", NOW_MS)
        held = lease.acquire(engine, number, "driver", NOW_MS)
        assert held is not None
        cluster = Cluster(engine, number, held, TransactionLogWriter(engine, held))

        def commits() -> int:
            with reader.connect() as connection:
                row = transactions.find(connection, number, b"pay")
            return 0 if row is None else row.commits

        cluster.writer.apply(batch(transaction(0, start_ms=1), read(0, 3)), NOW_MS)
        assert commits() == 1
        second = batch(transaction(3, start_ms=2), read(3, 6))
        stop = before_statement(engine, 5, own_server.stop)  # in the middle of the transaction
        with pytest.raises(StoreUnavailable):
            cluster.writer.apply(second, NOW_MS)
        stop()
        for call in (lambda: cluster.writer.apply(second, NOW_MS), lambda: lease.renew(engine, held, NOW_MS), commits):
            with pytest.raises(StoreUnavailable):
                call()

        own_server.start()
        assert commits() == 1
        assert cluster.writer.apply(second, NOW_MS).ended.commits == 1
        assert commits() == 2
        assert cluster.writer.apply(second, NOW_MS).skipped == 1
        reader.dispose()
        engine.dispose()


@only_on("postgresql")
def test_a_writer_in_the_middle_is_waited_for_and_then_replaced(url: str) -> None:
    """The standby takes a lease that ran out: what was begun becomes whole, what begins after that is refused."""
    old, standby = open_engine(patient(url)), open_engine(patient(url))
    number = clusters.bind(old, "c", "c", NOW_MS)
    held = lease.acquire(old, number, "driver", NOW_MS)
    assert held is not None
    writer = TransactionLogWriter(old, held)
    in_the_middle, goes_on = threading.Event(), threading.Event()

    def pause() -> None:
        in_the_middle.set()
        goes_on.wait(LIMIT_S)

    stop = before_statement(old, 8, pause)
    with ThreadPoolExecutor(2) as at_once:
        applied = at_once.submit(writer.apply, batch(transaction(0, start_ms=1), read(0, 3)), NOW_MS)
        assert in_the_middle.wait(LIMIT_S)
        taken = at_once.submit(take_over, standby, number, "standby", LATER_MS)
        with pytest.raises(TimeoutError):
            taken.result(0.3)
        goes_on.set()
        assert applied.result(LIMIT_S).ended.commits == 1
        new = taken.result(LIMIT_S)
    stop()
    assert new is not None
    assert new.epoch == 2
    second = batch(transaction(3, start_ms=2), read(3, 6))
    with pytest.raises(LeaseLost, match="'standby' at epoch 2"):
        writer.apply(second, LATER_MS)
    assert TransactionLogWriter(standby, new).apply(second, LATER_MS).ended.commits == 1
    old.dispose()
    standby.dispose()


@only_on("postgresql")
def test_of_many_that_want_the_lease_one_gets_it(engine: Engine, url: str) -> None:
    number = clusters.bind(engine, "c", "c", NOW_MS)
    engines = [open_engine(patient(url)) for _ in range(4)]
    with ThreadPoolExecutor(len(engines)) as at_once:
        asked = [at_once.submit(lease.acquire, one, number, f"driver-{n}", NOW_MS) for n, one in enumerate(engines)]
        got = [held for held in (one.result(LIMIT_S) for one in asked) if held is not None]
    assert [held.epoch for held in got] == [1]
    with engine.connect() as connection:
        assert connection.scalar(schema.leases.select().with_only_columns(schema.leases.c.owner)) == got[0].owner
    for one in engines:
        one.dispose()
