"""Tests each way in which a transaction can hang, on real brokers with the whole application. The findings must have
the right owner, entry and remediation.

By default, these tests run on 4.3.1 and those of test_lab_stories on 3.9.2. If TXNSCOPE_TEST_VERSIONS is set, each test
runs on all versions listed there that have what the test needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.demo.workload.shipping import OFFSETS
from service.domain.findings.kinds import Kind, Resolution, Status
from service.domain.transaction_log.causes import Confidence
from service.store.rows.findings import finding_of
from tests.helpers.brokers import WITH_TV2, on, on_those
from tests.helpers.waiting import wait_until_equal
from tests.integration.hang_lab import HangLab, command_of, hang_labs, may_write_unlisted
from tests.lab.asking import mark, open_on
from tests.lab.hangs import (
    add_offsets,
    commit_offsets,
    commit_one,
    committed_without_listing,
    late_write,
    never_added,
    of_another_cluster,
    offsets_never_added,
    old_producer,
    orphan_producer,
    outlives_its_records,
)
from tests.lab.readers import stuck_reader, waiting_reader

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], HangLab]]:
    with hang_labs(tmp_path_factory.mktemp("hanging")) as of:
        yield of


@pytest.fixture
def here(lab: Callable[[str], HangLab], version: str) -> HangLab:
    return lab(version)


@on("4.3.1")
def test_a_late_write_after_an_abort_and_the_group_behind_it(here: HangLab) -> None:
    here.create_topic("c-late")
    commit_one(old_producer(here.connection, "c-before"), "c-late", 0)
    hang = late_write(old_producer(here.connection, "c-late-1"), "c-late", 0)
    with waiting_reader(here.bootstrap, "c-readers", "c-late", expected=1):
        here.wait_until_confirmed(hang)
        assert here.wait_for_blocker("c-late", 0, "hanging")["blocking_now"]
        here.wait_for_finding(Kind.HANGING, lambda one: one.blocked_groups == ["c-readers"], topic="c-late")
        (group,) = here.groups("c-readers")
        assert group["relation"] in ("stopped", "will_stop")  # the count of records includes the marker before the LSO
        assert (group["committed_offset"], group["last_stable_offset"]) == (1, hang.start_offset)
        listed = [item["subject"] for item in here.get("/hanging?limit=200")["items"]]
        assert ("c-late-1", hang.start_offset) in [(one["transactional_id"], one["start_offset"]) for one in listed]
        here.end_by_command(hang)
        here.wait_until_free("c-late")
        assert here.groups("c-readers") == []


@on("4.3.1")
def test_a_late_write_after_a_commit_belongs_to_no_transaction(here: HangLab) -> None:
    """ABORT is right here, because the late write belongs to no transaction. For a committed transaction that has lost
    its marker, ABORT would be wrong."""
    here.create_topic("c-committed")
    hang = late_write(old_producer(here.connection, "c-committed-1"), "c-committed", 0, commit=True)
    here.end_by_command(hang)
    here.wait_until_free("c-committed")


@on("4.3.1")
def test_records_on_a_partition_that_was_never_added(here: HangLab) -> None:
    here.create_topic("c2-never")
    hang = never_added(old_producer(here.connection, "c2-never-1"), "c2-never", 0)
    row = here.wait_until_confirmed(hang)
    is_tv2 = here.broker.version in WITH_TV2
    assert may_write_unlisted(row) is is_tv2, "its client may begin a first transaction, under Kafka 4's protocol"
    mark(here.connection, "c2-never", 0, hang.open, commit=True)  # a manual marker, written without txnscope
    here.wait_until_resolved(hang, Resolution.FOREIGN_COMMIT)
    here.wait_until_free("c2-never")


@on("4.3.1")
def test_records_of_a_producer_id_that_nobody_ever_had(here: HangLab) -> None:
    here.create_topic("d-orphan")
    hang = never_added(orphan_producer(here.connection, "d-nobody"), "d-orphan", 0)
    here.end_by_command(hang)


@on_those(WITH_TV2, "4.3.1")
def test_a_committed_transaction_that_did_not_list_the_partition(here: HangLab) -> None:
    """An ABORT would destroy the records of the committed transaction, so the finding advises no command."""
    here.create_topic("c3-unlisted", 2)
    hang = committed_without_listing(here.connection, "c3-unlisted-1", "c3-unlisted")
    row = here.wait_for_finding(
        Kind.HANGING,
        lambda one: one.status == Status.CONFIRMED and "too, without listing" in str(one.evidence),
        topic="c3-unlisted",
        start_offset=hang.start_offset,
    )
    assert (row.decision, command_of(row)) == ("unknown", None)
    assert "commit" in row.possible
    assert row.transactional_id == b"c3-unlisted-1"


@on("4.3.1")
@pytest.mark.parametrize(("name", "epoch"), [("d3-epoch", 3), ("d3-older", 0)])
def test_records_of_another_cluster_with_a_producer_id_of_this_one(here: HangLab, name: str, epoch: int) -> None:
    """Two clusters may use the same producer id. So the records need not belong to the transactional.id that has the
    producer id in this cluster. The finding names no transactional.id, and advises no marker."""
    here.create_topic(name)
    hang = of_another_cluster(here.connection, name, name, epoch=epoch)
    row = here.wait_for_finding(
        Kind.HANGING,
        lambda one: one.status == Status.CONFIRMED and "--mirrored" in finding_of(one).observation.advice,
        topic=name,
        producer_id=hang.producer_id,
    )
    assert (row.decision, command_of(row), row.transactional_id) == ("unknown", None, None)
    assert row.confidence == Confidence.LIKELY
    assert here.wait_for_blocker(name, 0, "hanging")["transactional_id"] is None


@on("4.3.1")
def test_offsets_of_a_group_hang_and_a_member_cannot_begin(here: HangLab) -> None:
    here.create_topic("e-orders")
    before = old_producer(here.connection, "e-before")
    add_offsets(before, "e-readers")
    commit_offsets(before, "e-readers", {("e-orders", 0): 3})
    before.end(commit=True)
    hang = offsets_never_added(old_producer(here.connection, "e-offsets-1"), "e-readers", {("e-orders", 0): 7})
    assert hang.topic == OFFSETS
    with stuck_reader(here.bootstrap, "e-readers", "e-orders"):
        here.wait_until_confirmed(hang)
        here.wait_for_finding(Kind.HANGING, lambda one: "e-readers" in one.blocked_groups, producer_id=hang.producer_id)

        def reported() -> list[tuple[str, str, int]]:
            return [
                (group["topic"], group["relation"], group["offsets_partition"]) for group in here.groups("e-readers")
            ]

        cannot_begin = [("e-orders", "unstable_offsets", hang.partition)]
        wait_until_equal(reported, cannot_begin, f"the reported state of the group ({here.app.log})")
        here.end_by_command(hang)
        wait_until_equal(lambda: here.groups("e-readers"), [], f"the blocked groups ({here.app.log})")


@on("4.3.1")
def test_the_first_offsets_of_a_group_hang_and_the_group_is_named(here: HangLab) -> None:
    """The group has no committed offsets, so no answer of Kafka names the group."""
    here.create_topic("e-first", 2)
    offsets = {("e-first", 0): 7, ("e-first", 1): 8}
    hang = offsets_never_added(old_producer(here.connection, "e-first-1"), "e-first-readers", offsets)
    with stuck_reader(here.bootstrap, "e-first-readers", "e-first"):
        here.wait_until_confirmed(hang)

        def reported() -> list[tuple[str, int, str, int, int]]:
            names = ("topic", "partition", "relation", "offsets_partition", "producer_id")
            return [tuple(group[name] for name in names) for group in here.groups("e-first-readers")]

        pending = [("e-first", p, "unstable_offsets", hang.partition, hang.producer_id) for p in (0, 1)]
        wait_until_equal(reported, pending, f"the reported state of the group ({here.app.log})")

        def is_named(one: Any) -> bool:
            texts = [text for _, _, text in one.evidence]
            has_it = any("commit offsets of e-first-readers (e-first-0 and e-first-1)" in text for text in texts)
            return has_it and one.blocked_groups == ["e-first-readers"]

        here.wait_for_finding(
            Kind.HANGING, is_named, topic=OFFSETS, start_offset=hang.start_offset, partition=hang.partition
        )
        here.wait_for_finding(
            Kind.BLOCKED_GROUP,
            lambda one: (
                one.status == Status.CONFIRMED and "hanging transaction of e-first-1" in finding_of(one).summary
            ),
            group="e-first-readers",
            partition=1,
        )
        here.end_by_command(hang)
        wait_until_equal(lambda: here.groups("e-first-readers"), [], f"the blocked groups ({here.app.log})")


@on("4.3.1")
def test_two_hang_on_one_partition_and_end_one_by_one(here: HangLab) -> None:
    here.create_topic("l-two")
    first = late_write(old_producer(here.connection, "l-first"), "l-two", 0)
    second = never_added(old_producer(here.connection, "l-second"), "l-two", 0)
    for hang in (first, second):
        here.wait_until_confirmed(hang)

    def reported() -> list[tuple[int, bool]]:
        return [
            (open_transaction["start_offset"], open_transaction["blocking_now"])
            for open_transaction in here.partition("l-two")["open_transactions"]
        ]

    both = [(first.start_offset, True), (second.start_offset, False)]
    wait_until_equal(reported, both, f"the open transactions on the partition ({here.app.log})")
    here.end_by_command(first)
    wait_until_equal(
        reported, [(second.start_offset, True)], f"the open transactions on the partition ({here.app.log})"
    )
    assert open_on(here.connection, "l-two", 0) == [second.open]
    here.end_by_command(second)
    here.wait_until_free("l-two")


@on("4.3.1")
def test_a_hanging_transaction_outlives_its_records(here: HangLab) -> None:
    """The first records of the transaction are deleted. The LSO then depends on the version of Kafka, but the finding
    does not."""
    here.create_topic("o-past")
    hang, now = outlives_its_records(old_producer(here.connection, "o-past-1"), "o-past", 0)
    here.wait_until_confirmed(hang)
    reported = here.partition("o-past")
    assert (reported["log_start_offset"], reported["last_stable_offset"]) == (now.log_start, now.last_stable_offset)
    here.end_by_command(hang)
    here.wait_until_free("o-past")
