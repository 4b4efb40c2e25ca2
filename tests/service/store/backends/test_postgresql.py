"""Tests of the store while its PostgreSQL server restarts, and while several writers compete for the lease."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import psutil
import pytest
from sqlalchemy import Engine, event

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogBatch, Reject
from service.store import clusters, lease, schema
from service.store.backends.postgresql.copy_in import COPIES_FROM
from service.store.engine import open_engine, open_reader
from service.store.errors import LeaseLost, StoreUnavailable
from service.store.queries import transactions
from service.store.standby import Standby
from service.store.writers.transaction_log import TransactionLogWriter
from tests.helpers.paths import ROOT
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import LIMIT_S, wait_until_equal
from tests.service.store.conftest import Cluster, only_on, patient, take_over
from tests.service.store.logs import NOW_MS, batch, counters, entry, everything, read, transaction

LATER_MS = NOW_MS + 1


def large_batch() -> LogBatch:
    """Returns a batch with enough ids for COPY, and with one reject, which is inserted as a single row."""
    log = [e for n in range(COPIES_FROM) for e in transaction(3 * n, b"id-%d" % n, start_ms=n, pid=n)]
    end = len(log)
    log.append(entry(end, states.ONGOING, b"id-3", pid=3))
    return batch(log, read(0, end + 1), rejects=[Reject(0, 0, 5, "bad_crc", None, None, b"\x00")])


def before_statement(engine: Engine, number: int, do: Callable[[], None]) -> Callable[[], int]:
    """Counts statements and commits from now on. Calls `do` just before statement or commit number `number`.

    Returns a function that stops counting and returns the count.
    """
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
def test_a_connection_lost_before_any_statement_costs_only_the_attempt(
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
        cluster.writer.apply(large_batch(), NOW_MS)
        assert everything(cluster.engine, cluster.id) == expected


def cut_off(postgres: Postgres, engine: Engine) -> None:
    postgres.execute(
        f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{engine.url.database}'"
    )


def test_work_continues_after_a_restart_of_the_server(own_server: Postgres) -> None:
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
        for _ in range(2):
            cluster.writer.apply(second, NOW_MS)
            assert commits() == 2
        reader.dispose()
        engine.dispose()


@only_on("postgresql")
def test_a_standby_waits_for_a_running_transaction_and_takes_over(url: str, postgres: Postgres) -> None:
    """A standby takes over an expired lease while the old writer has a database transaction open. The open transaction
    is still committed. The next transaction of the old writer is refused."""
    old, standby, blocking = (open_engine(patient(url)) for _ in range(3))
    number = clusters.bind(old, "c", "c", NOW_MS)
    held = lease.acquire(old, number, "driver", NOW_MS)
    assert held is not None
    writer = TransactionLogWriter(old, held)
    with ThreadPoolExecutor(2) as at_once:
        with blocking.begin() as connection:
            connection.exec_driver_sql("LOCK TABLE transactional_ids")
            applied = at_once.submit(writer.apply, batch(transaction(0, start_ms=1), read(0, 3)), NOW_MS)
            wait_until_equal(
                lambda: waiting_for_a_lock(postgres, old),
                1,
                "the number of the old writer's sessions that wait for a lock",
            )
            taken = at_once.submit(take_over, standby, number, "standby", LATER_MS)
            wait_until_equal(
                lambda: waiting_for_a_lock(postgres, old),
                2,
                "the number of waiting sessions, including the standby's session",
            )
        applied.result(LIMIT_S)
        new = taken.result(LIMIT_S)
    assert new is not None
    assert new.epoch == 2
    second = batch(transaction(3, start_ms=2), read(3, 6))
    with pytest.raises(LeaseLost, match="'standby' at epoch 2"):
        writer.apply(second, LATER_MS)
    assert counters(standby, number)["commits"] == 1
    TransactionLogWriter(standby, new).apply(second, LATER_MS)
    assert counters(standby, number)["commits"] == 2
    for engine in (old, standby, blocking):
        engine.dispose()


@only_on("postgresql")
@pytest.mark.parametrize("opens", [open_engine, open_reader])
def test_a_password_in_the_query_of_the_url_reaches_the_server(url: str, opens: Callable[[str], Engine]) -> None:
    password = "m4rk%2Bed"
    engine = opens(f"{url}{'&' if '?' in url else '?'}password={password}")
    with engine.connect() as connection:
        assert connection.connection.dbapi_connection.info.password == "m4rk+ed"  # type: ignore[union-attr]
    assert "m4rk" not in repr(engine)
    engine.dispose()


def waiting_for_a_lock(postgres: Postgres, engine: Engine) -> int:
    """Returns the number of sessions in the database of `engine` that wait for a lock."""
    waiting = f"datname = '{engine.url.database}' AND wait_event_type = 'Lock'"
    return int(postgres.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {waiting}")[0][0])


@only_on("postgresql")
def test_one_of_many_applicants_gets_the_lease(engine: Engine, url: str) -> None:
    number = clusters.bind(engine, "c", "c", NOW_MS)
    engines = [open_engine(patient(url)) for _ in range(4)]
    with ThreadPoolExecutor(len(engines)) as at_once:
        asked = [
            at_once.submit(lease.acquire, engine, number, f"driver-{n}", NOW_MS) for n, engine in enumerate(engines)
        ]
        got = [held for held in (future.result(LIMIT_S) for future in asked) if held is not None]
    assert [held.epoch for held in got] == [1]
    with engine.connect() as connection:
        assert connection.scalar(schema.leases.select().with_only_columns(schema.leases.c.owner)) == got[0].owner
    for one in engines:
        one.dispose()


_STOPS_ITSELF = """
import os, signal, sys
from service.store import lease
from service.store.engine import open_engine
engine = open_engine(sys.argv[1])
held = lease.acquire(engine, int(sys.argv[2]), "driver", 0)
with engine.begin() as connection:
    lease.check(connection, held)
    with connection.connection.cursor().copy("COPY rejects FROM STDIN") as copy:
        if sys.argv[3] == "in COPY":
            os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@only_on("postgresql")
@pytest.mark.parametrize("where", ["in COPY", "between two statements"])
def test_a_writer_stopped_in_a_transaction_does_not_block_a_takeover(engine: Engine, url: str, where: str) -> None:
    number = clusters.bind(engine, "c", "c", NOW_MS)
    standby = open_engine(patient(url))
    arguments = [sys.executable, "-c", _STOPS_ITSELF, patient(url), str(number), where]
    with subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, text=True) as stopped:
        try:
            wait_until_equal(
                lambda: psutil.Process(stopped.pid).status(), psutil.STATUS_STOPPED, "the status of the writer"
            )
            taken = take_over(standby, number)
            assert taken is not None
            assert taken.epoch == 2
            stopped.send_signal(signal.SIGCONT)
            _, said = stopped.communicate(timeout=LIMIT_S)
        finally:
            stopped.kill()
    assert "StoreUnavailable" in said, "the server has rolled back the transaction that the stopped writer had begun"
    with standby.begin() as connection:
        lease.check(connection, taken)
    standby.dispose()


@only_on("postgresql")
def test_the_clock_of_the_database_has_no_effect_on_the_lease(engine: Engine, url: str, postgres: Postgres) -> None:
    """The test replaces PostgreSQL's time functions by functions whose clock jumps by an hour in both directions."""
    hidden = "".join(
        f"CREATE FUNCTION moved.{name}() RETURNS timestamptz LANGUAGE sql AS $$"
        f" SELECT pg_catalog.{name}() + (SELECT ahead FROM moved.clock) $$;"
        for name in ("now", "clock_timestamp", "statement_timestamp", "transaction_timestamp")
    )
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA moved; CREATE TABLE moved.clock (ahead interval); {hidden}")
        connection.exec_driver_sql("INSERT INTO moved.clock VALUES (interval '0')")
    number = clusters.bind(engine, "c", "c", NOW_MS)
    options = quote("-c search_path=moved,pg_catalog,public")
    holder, other = (open_engine(f"{patient(url)}&options={options}") for _ in range(2))
    held = lease.acquire(holder, number, "driver", NOW_MS)
    assert held is not None
    standby = Standby(other, number, "standby", lambda: 0.5)
    for second, ahead in enumerate(["0", "1 hour", "1 hour", "-1 hour", "-1 hour", "0"] * 5):
        with engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE moved.clock SET ahead = interval '{ahead}'")
        lease.renew(holder, held, NOW_MS + second)
        assert standby.acquire(NOW_MS) is None
    looks = 0
    while (taken := standby.acquire(NOW_MS)) is None:
        looks += 1
    assert (looks / 2, taken.epoch) == (lease.EXPIRES_AFTER_MS / 1000 - 0.5, 2)
    with pytest.raises(LeaseLost):
        lease.renew(holder, held, NOW_MS)
    for one in (holder, other):
        one.dispose()
