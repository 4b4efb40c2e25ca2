"""Tests that counts and states stay exact, with real brokers and real Spark, when processes are killed or restarted,
and when data are deleted or truncated."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from service.domain.transaction_log.states import TOPIC
from service.store.schema import findings, source_status
from tests.conftest import MakeBroker
from tests.helpers.brokers import describe_transaction, on, on_broker
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_for, wait_until, wait_until_equal
from tests.integration.application import ingesting
from tests.integration.kafka_tools import completed
from tests.integration.producers import admin_of, create_topic, delete_topics, load, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]


@on("3.9.2")
def test_kill_minus_9_of_the_driver_and_a_restart_of_the_broker_in_the_middle_of_load(
    version: str, make_broker: MakeBroker, broker_431: Broker, tmp_path: Path
) -> None:
    broker = make_broker(version)
    create_topic(broker.bootstrap, "restarted")
    names = [f"restarted-{n}" for n in range(2)]
    with ingesting(broker.bootstrap, tmp_path) as app:
        wait_for(lambda: app.log_status(), f"the first batch; {app.log}")
        with load(broker.bootstrap, "restarted", names):
            app.wait_for_more_commits(names)
            app.kill()
            app.start()
            app.wait_for_more_commits(names)

            broker.stop()
            assert "answer" in str(wait_for(app.log_trouble, "the reported error"))
            broker.start()
            app.wait_for_more_commits(names)
        app.wait_for_counts(completed(broker_431, broker.bootstrap))
        assert app.gaps() == []
        wait_until_equal(app.log_trouble, None, f"the reported error ({app.log})")


@on_broker("3.9.2")
def test_killed_between_the_commit_of_the_store_and_that_of_spark(broker: Broker, tmp_path: Path) -> None:
    """The test also removes the checkpoint, so only the store has the position at which to continue."""
    create_topic(broker.bootstrap, "between")
    with ingesting(broker.bootstrap, tmp_path) as app:
        assert app.stop() == 0
        app.start(module="tests.integration.dies_after_commit")
        producer = open_producer(broker.bootstrap, "between")
        for _ in range(10):
            transact(producer, "between")
        assert app.process.wait(LIMIT_S) == -9
        shutil.rmtree(tmp_path / "checkpoint")
        app.start()
        transact(producer, "between", commit=False)
        wait_until_equal(lambda: app.counts().get("between"), (10, 1), f"(commits, aborts) of `between` ({app.log})")


@on("4.3.1")
def test_a_topic_that_is_created_again_is_read_anew_and_nothing_stale_stays(
    version: str, make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(version)
    create_topic(broker.bootstrap, "again")
    with ingesting(broker.bootstrap, tmp_path) as app:
        old = open_producer(broker.bootstrap, "before")
        for _ in range(5):
            transact(old, "again")
        app.wait_for_counts({"before": (5, 0)})
        delete_topics(broker.bootstrap, TOPIC)
        broker.stop()
        broker.start()
        new = open_producer(broker.bootstrap, "after")
        transact(new, "again")
        app.wait_for_counts({"before": (5, 0), "after": (1, 0)})
        assert (app.ids()["before"].state, app.ids()["after"].state) == ("Expired", "CompleteCommit")
        assert set(app.gaps()) == {"recreated"}


@on("3.9.2")
def test_a_log_that_lost_its_end_is_read_again(version: str, make_broker: MakeBroker, tmp_path: Path) -> None:
    """After an unclean election, the log has other records at offsets that were already read."""
    broker = make_broker(version, **{"transaction.state.log.num.partitions": 1})
    create_topic(broker.bootstrap, "cut")
    with ingesting(broker.bootstrap, tmp_path) as app:
        survivor = open_producer(broker.bootstrap, "survivor")
        transact(survivor, "cut")
        app.wait_for_counts({"survivor": (1, 0)})  # the CompleteCommit of this id is in the part that is kept
        lost = open_producer(broker.bootstrap, "lost")
        transact(lost, "cut")
        app.wait_for_counts({"survivor": (1, 0), "lost": (1, 0)})
        broker.stop()
        cut_before(broker.data / f"{TOPIC}-0" / f"{0:020}.log", b"lost")
        broker.start()
        transact(survivor, "cut")
        app.wait_for_counts({"survivor": (2, 0), "lost": (1, 0)})
        assert (app.ids()["lost"].state, app.ids()["survivor"].state) == ("Expired", "CompleteCommit")
        assert app.gaps() == ["diverged"]


def cut_before(segment: Path, transactional_id: bytes) -> None:
    """Truncates the segment before the first batch that contains the id. Also removes the segment's indexes, and the
    broker's mark of a clean shutdown."""
    data = segment.read_bytes()
    at = 0
    while at < len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        if transactional_id in data[at : at + size]:
            break
        at += size
    assert 0 < at < len(data)
    os.truncate(segment, at)
    for other in ("index", "timeindex"):
        segment.with_suffix(f".{other}").unlink(missing_ok=True)
    (segment.parents[1] / ".kafka_cleanshutdown").unlink(missing_ok=True)


@on("3.9.2")
def test_a_cluster_without_transactions_is_healthy_and_its_log_is_never_created(
    version: str, make_broker: MakeBroker, tmp_path: Path
) -> None:
    """The cluster has no topics at all. The application must report no error and no finding, and must not create the
    transaction log."""
    broker = make_broker(version)
    with ingesting(broker.bootstrap, tmp_path) as app:
        sources = wait_until(
            lambda: {row.source: (row.as_of_ms, row.error) for row in app.rows(source_status)},
            lambda seen: len(seen) == 2 and all(as_of_ms for as_of_ms, _ in seen.values()),
            "the first success of both sources",
        )
        assert {error for _, error in sources.values()} == {None}
        assert TOPIC not in admin_of(broker.bootstrap).list_topics(timeout=ANSWER_S).topics
        create_topic(broker.bootstrap, "late")
        transact(open_producer(broker.bootstrap, "late"), "late")
        app.wait_for_counts({"late": (1, 0)})
        assert describe_transaction(broker.bootstrap, "late").state == app.ids()["late"].state == "CompleteCommit"
        assert app.rows(findings) == []
