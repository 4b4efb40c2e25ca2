"""Why each transaction ended, as the store says it of real brokers: right, and no surer than the log allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from deploy.demo.workload.raw_producer import Connection, RawProducer
from deploy.demo.workload.workload import Workload
from service.domain import states
from service.store.schema import id_minutes, transactional_ids, transitions
from tests.conftest import MakeBroker
from tests.integration.application import Ingest, ingesting, wait_for
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SHORT_MS = 1_000


def ends(app: Ingest, name: str) -> list[tuple[str, str]]:
    """(cause, confidence) of every end of the id's transactions that has a row, oldest first."""
    rows = [r for r in app.rows(transitions) if r.transactional_id == name.encode()]
    return [(r.cause, r.confidence) for r in sorted(rows, key=lambda r: r.offset) if r.to_state == states.PREPARE_ABORT]


def wait_for_ends(app: Ingest, expected: dict[str, list[tuple[str, str]]]) -> None:
    with suppress(AssertionError):
        wait_for(lambda: {name: ends(app, name) for name in expected} == expected, "the causes", 40)
    assert {name: ends(app, name) for name in expected} == expected


def open_one(bootstrap: str, name: str, topic: str, timeout_ms: int = 60_000) -> None:
    producer = open_producer(bootstrap, name, timeout_ms)
    producer.begin_transaction()
    producer.produce(topic, b"left behind")
    producer.flush(20)


def test_old_clients(broker: Broker, tmp_path: Path) -> None:
    """librdkafka: the old protocol, on a cluster without transaction.version (3.9.2) and on one with TV2 (4.3.1)."""
    bootstrap = broker.bootstrap
    create_topic(bootstrap, "causes-old")
    with ingesting(bootstrap, tmp_path) as app:
        client = open_producer(bootstrap, "old-client")
        for commit in (True, False, True):
            transact(client, "causes-old", commit=commit)
        open_one(bootstrap, "old-timeout", "causes-old", SHORT_MS)
        open_one(bootstrap, "old-fenced", "causes-old")
        transact(open_producer(bootstrap, "old-fenced"), "causes-old")
        with raw(bootstrap) as connection:
            open_one(bootstrap, "old-admin", "causes-old")
            RawProducer(connection, "old-admin").init(timeout_ms=30_000)  # as fenceProducers does
        wait_for_ends(
            app,
            {
                "old-client": [("client_abort", "certain")],
                "old-timeout": [("timeout", "likely")],
                "old-fenced": [("fenced", "certain")],
                "old-admin": [("admin", "likely")],
            },
        )
        counted = {r.transactional_id.decode(): r for r in app.rows(transactional_ids)}
        assert (counted["old-client"].commits, counted["old-client"].aborts_client) == (2, 1)
        wait_for(
            lambda: (
                {n: c[1] for n, c in app.counts().items() if n.startswith("old-")}
                == dict.fromkeys(("old-client", "old-timeout", "old-fenced", "old-admin"), 1)
            ),
            "every abort to be counted",
        )
        minutes = [r for r in app.rows(id_minutes) if r.transactional_id == b"old-client"]
        assert (sum(r.commits for r in minutes), sum(r.aborts_client for r in minutes)) == (2, 1)


@contextmanager
def raw(bootstrap: str) -> Iterator[Connection]:
    with Connection(bootstrap, threading.Event()) as connection:
        yield connection


def test_tv2_clients(broker_431: Broker, tmp_path: Path) -> None:
    """Every end raises the epoch by one: nothing is certain, and what the id does next decides."""
    bootstrap = broker_431.bootstrap
    create_topic(bootstrap, "causes-tv2")
    with ingesting(bootstrap, tmp_path) as app, raw(bootstrap) as connection:
        lives_on = RawProducer(connection, "tv2-lives-on")
        lives_on.init()
        for commit in (True, False, True):
            lives_on.produce("causes-tv2", 0, [b"x"])
            lives_on.end(commit=commit)
        last_word = RawProducer(connection, "tv2-last-word")
        last_word.init()
        last_word.produce("causes-tv2", 0, [b"x"])
        last_word.end(commit=False)
        nothing = RawProducer(connection, "tv2-nothing")
        nothing.init()
        nothing.end(commit=False)
        timed_out = RawProducer(connection, "tv2-timeout")
        timed_out.init(timeout_ms=SHORT_MS)
        timed_out.produce("causes-tv2", 0, [b"x"])
        fenced = RawProducer(connection, "tv2-fenced")
        fenced.init()
        fenced.produce("causes-tv2", 1, [b"x"])
        RawProducer(connection, "tv2-fenced").init()
        admin = RawProducer(connection, "tv2-admin")
        admin.init()
        admin.produce("causes-tv2", 2, [b"x"])
        RawProducer(connection, "tv2-admin").init(timeout_ms=30_000)
        wait_for_ends(
            app,
            {
                "tv2-lives-on": [("client_abort", "likely")],
                "tv2-last-word": [("client_abort", "ambiguous")],
                "tv2-nothing": [("empty_abort", "certain")],
                "tv2-timeout": [("timeout", "likely")],
                "tv2-fenced": [("fenced", "ambiguous")],
                "tv2-admin": [("admin", "likely")],
            },
        )
        # the abort that nothing followed is counted once nothing can follow in time any more
        names = ("tv2-lives-on", "tv2-last-word", "tv2-timeout", "tv2-fenced", "tv2-admin")
        wait_for(lambda: [app.counts()[n][1] for n in names] == [1] * 5, "every abort to be counted", 40)
        assert app.counts()["tv2-nothing"] == (0, 0)


def test_an_id_expires_and_is_born_again(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker(
        "3.9.2",
        **{
            "transactional.id.expiration.ms": 2_000,
            "transaction.remove.expired.transaction.cleanup.interval.ms": 500,
        },
    )
    create_topic(broker.bootstrap, "expires")
    with ingesting(broker.bootstrap, tmp_path) as app:
        transact(open_producer(broker.bootstrap, "mortal"), "expires")
        wait_for(lambda: "mortal" in app.ids() and app.ids()["mortal"].state == "Expired", "the id to expire")
        time.sleep(0.5)
        transact(open_producer(broker.bootstrap, "mortal"), "expires")
        wait_for(lambda: app.counts()["mortal"] == (2, 0), "the second life")
        rows = sorted((r for r in app.rows(transitions) if r.transactional_id == b"mortal"), key=lambda r: r.offset)
        assert [r.cause for r in rows][:3] == ["initialized", "expired", "initialized"]
        assert rows[0].producer_id != rows[2].producer_id


def test_the_workload_knows_who_ended_each_transaction(broker: Broker, tmp_path: Path) -> None:
    with ingesting(broker.bootstrap, tmp_path) as app:
        ledger = Workload(broker.bootstrap, seed=21, prefix="who-").run(rounds=4)
        expected = {n: tuple(a.aborts) for n, a in ledger.accounts.items() if a.app != "audit-tv2"}

        def told() -> dict[str, tuple[int, int, int]]:
            rows = {r.transactional_id.decode(): r for r in app.rows(transactional_ids)}
            return {
                n: (rows[n].aborts_client, rows[n].aborts_timeout, rows[n].aborts_fenced) for n in expected if n in rows
            }

        with suppress(AssertionError):
            wait_for(lambda: told() == expected, "the causes", 40)
        assert told() == expected
