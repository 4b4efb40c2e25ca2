"""Tests of transactions that end late: after a timeout, or because a participant does not answer. Also tests the expiry
of ids.

The tests on one version share one pair of brokers, on which idle ids expire after 3 s. So each history ends with the
expiry of the id, unless a transaction is still open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from deploy.demo.broker import Broker
from deploy.demo.workload.raw_producer import Refused, describe
from service.domain.transaction_log.causes import CauseCode
from service.store.schema import id_minutes
from tests.helpers.brokers import EVERY_VERSION, SKIPS_THE_LOST, free_ports, on, on_those, transactional_ids
from tests.helpers.waiting import ANSWER_S, OPEN_MS, wait_for, wait_until_equal
from tests.integration.causes_lab import (
    CLIENT,
    EXPIRED,
    INIT,
    NOBODY_LET_IN,
    PRODUCER_FENCED,
    TIMEOUT,
    Lab,
    ended_by_a_late_copy,
    id_history,
    lab,
)
from tests.integration.producers import create_topic, create_topics, delete_topics, open_producer, transact
from tests.lab.lost_leaders import has_lost

pytestmark = [pytest.mark.broker, pytest.mark.spark]

LOST_MS = 2_500
SHORT_MS = 1_000
EXPIRE_SOON = {
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}


class Pair(NamedTuple):
    """Two brokers. `lab` uses the broker that has the whole transaction log. `other` is the broker that leads partition
    0 of the topics that `create_topic` creates."""

    lab: Lab
    other: Broker

    def create_topic(self, name: str) -> None:
        create_topics(self.lab.bootstrap, NewTopic(name, 2, replica_assignment=[[2], [1]]))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Pair]]:
    with ExitStack() as running:
        yield cache(lambda version: _start(version, tmp_path_factory.mktemp(f"pair-{version}"), running))


@pytest.fixture
def both(pair: Callable[[str], Pair], version: str) -> Pair:
    return pair(version)


@pytest.fixture
def here(both: Pair) -> Lab:
    return both.lab


def _start(version: str, directory: Path, running: ExitStack) -> Pair:
    port, other_port = free_ports(2)
    first = _running(Broker(version, port, directory / "1", EXPIRE_SOON), running)
    create_topic(first.bootstrap, "before")
    transact(open_producer(first.bootstrap, "before"), "before")  # creates the log on the first broker
    properties = {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{other_port}",
    }
    other = _running(Broker(version, other_port, directory / "2", properties), running)
    return Pair(running.enter_context(lab(first, directory)), other)


def _running(broker: Broker, stack: ExitStack) -> Broker:
    """Starts the broker, and kills it when `stack` ends. A controlled shutdown would take long if the other broker has
    already ended."""
    stack.callback(broker.kill)
    return broker.start()


def _is_late(here: Lab, name: str) -> None:
    here.expect({name: id_history(1, INIT, EXPIRED)})
    marker_ms = here.marker_ms(name)
    assert marker_ms is not None
    assert marker_ms >= LOST_MS


@on("3.9.2")
def test_old_clients_run_out_of_time_or_abort_themselves(here: Lab) -> None:
    create_topic(here.bootstrap, "f-dead", 1)
    zombie = here.begin("f-old", "f-dead", SHORT_MS)
    alive = open_producer(here.bootstrap, "f-alive")
    for commit in (True, False, True):
        transact(alive, "f-dead", commit=commit)
    wait_until_equal(
        lambda: describe(here.connection, "f-old").transaction_state, "CompleteAbort", "the state of f-old"
    )
    with pytest.raises(KafkaException):
        zombie.commit_transaction(ANSWER_S)  # leaves no record
    here.expect({"f-old": id_history(0, INIT, TIMEOUT, EXPIRED), "f-alive": id_history(2, INIT, CLIENT, EXPIRED)})
    minutes = [r for r in here.app.rows(id_minutes) if r.transactional_id == b"f-alive"]
    assert (sum(r.commits for r in minutes), sum(r.aborts_client for r in minutes)) == (2, 1)


@on_those([v for v in EVERY_VERSION if v < "4.0"], "3.9.2")
def test_before_4_0_a_producer_that_asks_for_a_new_epoch_itself_is_refused(here: Lab) -> None:
    """A producer sends InitProducerId with its own producer id and epoch (KIP-360) while its transaction is open. The
    coordinator aborts the transaction, and refuses the request. No new instance takes over."""
    create_topic(here.bootstrap, "itself")
    itself = here.old("itself", "itself")
    with pytest.raises(Refused) as refused:
        itself.init(own=True)
    assert refused.value.code == PRODUCER_FENCED
    late_copy = here.old("late-copy", "itself", 1)
    ended_by_a_late_copy(late_copy, "itself", commit=False)
    here.expect(
        {
            "itself": id_history(0, INIT, NOBODY_LET_IN, EXPIRED),
            "late-copy": id_history(1, INIT, CLIENT, CLIENT, EXPIRED),
        }
    )


@on("3.9.2")
def test_a_new_id_at_every_start_leaves_zombies(here: Lab) -> None:
    create_topic(here.bootstrap, "h-churn", 1)
    for n in range(6):
        here.begin(f"h-app-{n}", "h-churn", SHORT_MS)
    alive = here.begin("h-app-6", "h-churn", OPEN_MS)
    here.expect(
        {f"h-app-{n}": id_history(0, INIT, TIMEOUT, EXPIRED) for n in range(6)} | {"h-app-6": id_history(0, INIT)}
    )
    alive.abort_transaction(ANSWER_S)
    here.expect({"h-app-6": id_history(0, INIT, CLIENT, EXPIRED)})


@on("3.9.2")
def test_the_leader_of_a_participant_is_frozen(both: Pair) -> None:
    here, other = both
    both.create_topic("k-part")
    producer = here.begin("k-frozen", "k-part", OPEN_MS, partitions=(0, 1))
    wait_until_equal(lambda: here.app.state("k-frozen"), "Ongoing", f"the state of k-frozen ({here.app.log})")
    other.pause()
    try:
        producer.commit_transaction(ANSWER_S)
        time.sleep(LOST_MS / 1_000)
    finally:
        other.resume()
    _is_late(here, "k-frozen")


@on("3.9.2")
def test_a_participant_has_no_leader(both: Pair, version: str) -> None:
    here, other = both
    both.create_topic("k2-part")
    producer = here.begin("k2-lost", "k2-part", OPEN_MS, partitions=(0, 1))
    other.stop()
    try:
        wait_for(lambda: has_lost(here.bootstrap, "k2-part"), "the loss of the leader")
        producer.commit_transaction(ANSWER_S)
        if version in SKIPS_THE_LOST:
            here.expect({"k2-lost": id_history(1, INIT, EXPIRED)})  # nothing in this log shows that a marker is missing
        else:
            time.sleep(LOST_MS / 1_000)
            wait_until_equal(
                lambda: here.app.state("k2-lost"), "PrepareCommit", f"the state of k2-lost ({here.app.log})"
            )
            assert here.id_history(["k2-lost"]) == {"k2-lost": id_history(0, INIT)}
    finally:
        other.start()
    if version not in SKIPS_THE_LOST:
        _is_late(here, "k2-lost")


@on("3.9.2")
def test_a_participant_is_deleted(here: Lab) -> None:
    create_topic(here.bootstrap, "m-stays")
    create_topic(here.bootstrap, "m-goes")
    producers = here.begin("m-commit", "m-stays"), here.begin("m-timeout", "m-stays", 3_000)
    for producer in producers:
        producer.produce("m-goes", b"gone", partition=0)
        assert producer.flush(ANSWER_S) == 0
    delete_topics(here.bootstrap, "m-goes")
    producers[0].commit_transaction(ANSWER_S)
    here.expect({"m-commit": id_history(1, INIT, EXPIRED), "m-timeout": id_history(0, INIT, TIMEOUT, EXPIRED)})


@on("3.9.2")
def test_ids_expire_and_are_born_again(here: Lab) -> None:
    create_topic(here.bootstrap, "i-expiry", 1)
    busy = here.begin("i-busy", "i-expiry", OPEN_MS)
    transact(open_producer(here.bootstrap, "i-done"), "i-expiry")
    open_producer(here.bootstrap, "i-idle")
    here.expect(
        {"i-done": id_history(1, INIT, EXPIRED), "i-idle": id_history(0, INIT, EXPIRED), "i-busy": id_history(0, INIT)}
    )
    # the coordinator forgets an id when its tombstone is written
    wait_until_equal(
        lambda: "i-done" in transactional_ids(here.bootstrap), False, "the answer to whether Kafka still lists i-done"
    )
    transact(open_producer(here.bootstrap, "i-done"), "i-expiry")
    busy.abort_transaction(ANSWER_S)
    here.expect({"i-done": id_history(2, INIT, EXPIRED, INIT, EXPIRED), "i-busy": id_history(0, INIT, CLIENT, EXPIRED)})
    first, second = (row.producer_id for row in here.transitions("i-done") if row.cause == CauseCode.INITIALIZED)
    assert first != second
