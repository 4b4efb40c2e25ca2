"""Tests of transactions that block a partition, until they no longer block it. Some of the transactions hang, and the
others do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from deploy.demo.workload.refused_marker import leave_prepared
from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.domain.transaction_log.causes import Confidence
from tests.helpers.brokers import on
from tests.helpers.waiting import OPEN_MS, wait_for, wait_until_equal
from tests.integration.hang_lab import EXPIRING, LONG, HangLab, hang_labs
from tests.lab.asking import mark, open_on
from tests.lab.hangs import an_hour_ago, commit_one, late_write, never_added, old_producer
from tests.lab.readers import waiting_reader

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ADOPTED_AFTER_S = 6.0
"""Time (s) from the confirmation of the hanging records to the transaction that adopts them: a second more than
`open_entries.ADOPTED_AFTER_MS`."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], HangLab]]:
    with hang_labs(tmp_path_factory.mktemp("stories"), EXPIRING) as of:
        yield of


@pytest.fixture
def here(lab: Callable[[str], HangLab], version: str) -> HangLab:
    return lab(version)


@on("3.9.2")
def test_a_long_legal_transaction_with_a_group_behind_it(here: HangLab) -> None:
    """A long transaction is not confirmed as hanging, even if its producer's clock is wrong. Kafka's own find-hanging
    selects transactions by that clock."""
    here.create_topic("b-long", 2)
    before = old_producer(here.connection, "b-before")
    for partition in (0, 1):
        commit_one(before, "b-long", partition)
    producer = old_producer(here.connection, f"{LONG}1", 900_000)
    producer.add("b-long", 0, 1)
    start = producer.produce("b-long", 0, [b"x"] * 3)
    old = producer.produce("b-long", 1, [b"y"], timestamp_ms=an_hour_ago())
    with waiting_reader(here.bootstrap, "b-readers", "b-long", expected=2):
        row = here.wait_for_finding(Kind.LONG_RUNNING, lambda _: True, transactional_id=producer.name.encode())
        assert (row.severity, row.owner, row.decision) == (Severity.WARNING, "reports", None)
        assert row.self_heals_at_ms is not None
        for partition, at in ((0, start), (1, old)):
            blocker = here.wait_for_blocker("b-long", partition, "open")
            assert (blocker["transactional_id"], blocker["start_offset"]) == (producer.name, at)

        def relations() -> set[str]:
            """Returns the reported relations of the group, except "unknown". The relation is rightly unknown until the
            group has committed the offsets that it read."""
            return {group["relation"] for group in here.groups("b-readers")} - {"unknown"}

        assert wait_for(relations, f"the group that waits; {here.app.log}") <= {"stopped", "will_stop"}
        blocked = here.wait_for_finding(
            Kind.BLOCKED_GROUP, lambda _: True, group="b-readers", topic="b-long", partition=0
        )
        assert blocked.severity == row.severity
        producer.end(commit=True)
        here.wait_for_finding(
            Kind.LONG_RUNNING, lambda one: one.resolution == Resolution.HEALED, transactional_id=row.transactional_id
        )
        here.wait_for_finding(
            Kind.BLOCKED_GROUP, lambda one: one.status == Status.RESOLVED, group="b-readers", partition=0
        )
    here.wait_until_free("b-long", 0)
    here.wait_until_free("b-long", 1)
    here.assert_nothing_hung("b-long")


@on("3.9.2")
def test_the_id_of_a_hanging_transaction_expires(here: HangLab) -> None:
    """The finding still names the expired id, although the coordinator has forgotten the id."""
    here.create_topic("d2-expired")
    hang = late_write(old_producer(here.connection, "d2-gone"), "d2-expired", 0)
    wait_until_equal(lambda: here.app.state("d2-gone"), "Expired", f"the state of d2-gone ({here.app.log})")
    here.wait_until_confirmed(hang)
    here.wait_for_finding(Kind.HANGING, lambda one: one.confidence == Confidence.CERTAIN, topic="d2-expired")
    assert here.wait_for_blocker("d2-expired", 0, "hanging")["transactional_id"] == "d2-gone"
    mark(here.connection, "d2-expired", 0, hang.open, commit=False)
    here.wait_until_resolved(hang, Resolution.FOREIGN_ABORT)


@on("3.9.2")
def test_stale_records_are_adopted_by_a_later_transaction(here: HangLab) -> None:
    """The COMMIT of the later transaction will also commit the stale records, so these no longer hang. A finding
    reports the adoption."""
    here.create_topic("adopted")
    producer = old_producer(here.connection, "adopted-1", OPEN_MS)
    hang = late_write(producer, "adopted", 0)
    here.wait_until_confirmed(hang)
    time.sleep(ADOPTED_AFTER_S)
    producer.add("adopted", 0)
    adopted = here.wait_for_finding(Kind.ADOPTED, lambda one: one.status == Status.CONFIRMED, topic="adopted")
    assert (adopted.severity, adopted.transactional_id, adopted.start_offset) == (
        Severity.WARNING,
        b"adopted-1",
        hang.start_offset,
    )
    here.wait_until_resolved(hang, Resolution.ADOPTION)
    here.wait_for_blocker("adopted", 0, "adopted")
    producer.end(commit=True)
    over = here.wait_for_finding(Kind.ADOPTED, lambda one: one.status == Status.RESOLVED, topic="adopted")
    assert over.resolution == Resolution.COORDINATOR_MARKER
    here.wait_until_free("adopted")


@on("3.9.2")
def test_the_topic_of_a_hanging_transaction_is_deleted(here: HangLab) -> None:
    here.create_topic("m-goes")
    hang = never_added(old_producer(here.connection, "m-goes-1"), "m-goes", 0)
    here.wait_until_confirmed(hang)
    here.delete_topic("m-goes")
    here.wait_until_resolved(hang, Resolution.TOPIC_DELETED)


@on("3.9.2")
def test_the_topic_of_an_open_transaction_is_deleted(here: HangLab) -> None:
    here.create_topic("m-stays")
    here.create_topic("m-vanishes")
    producer = old_producer(here.connection, "m-commit", OPEN_MS)
    for topic in ("m-stays", "m-vanishes"):
        commit_one(producer, topic, 0)
    for topic in ("m-stays", "m-vanishes"):
        producer.add(topic, 0)
        producer.produce(topic, 0, [b"1"])
    here.wait_for_blocker("m-vanishes", 0, "open")
    here.delete_topic("m-vanishes")
    producer.end(commit=True)
    here.wait_until_free("m-stays")
    wait_until_equal(lambda: here.app.state("m-commit"), "CompleteCommit", f"the state of m-commit ({here.app.log})")
    for topic in ("m-stays", "m-vanishes"):
        here.assert_nothing_hung(topic)


@on("3.9.2")
def test_a_marker_that_is_refused_for_good(here: HangLab) -> None:
    """The coordinator gives up on the marker, but the transaction stays decided. The transaction does not count as
    hanging, and the partition does not recover by itself."""
    here.create_topic("k-refused")
    producer = old_producer(here.connection, "k-refused-1")
    start = leave_prepared(producer, "k-refused", 0)
    row = here.wait_for_finding(
        Kind.STUCK_COMPLETION,
        lambda one: "no marker yet on k-refused-0" in str(one.evidence),
        transactional_id=b"k-refused-1",
    )
    assert (row.severity, row.status) == (Severity.WARNING, Status.CONFIRMED)
    assert here.wait_for_blocker("k-refused", 0, "completing")["start_offset"] == start
    (one,) = open_on(here.connection, "k-refused", 0)
    mark(here.connection, "k-refused", 0, one, commit=True)
    here.wait_until_free("k-refused")
    here.assert_nothing_hung("k-refused")
