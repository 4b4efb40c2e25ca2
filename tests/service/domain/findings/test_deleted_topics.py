"""Tests of topics that are deleted during a transaction. Some transactions certainly lost records, and others may have
lost records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import pytest

from service.domain.findings.finding import Subject
from service.domain.findings.formatting import names_of
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.rules import Rule
from service.domain.findings.torn import GonePart, MarkerRead, TornFacts, TornTransaction, torn
from service.domain.partitions.facts import LogPlace
from service.domain.partitions.marker_audit import Compared, EndedLog, Result, UnendedRecords, compare
from service.domain.partitions.marker_histories import NOT_KNOWN, Decision, SeenMarker
from tests.helpers.findings import observe

A, B = ("a", 0), ("b", 0)
WHOLE, TORN, UNSEEN = Result.WHOLE, Result.TORN, Result.UNSEEN
GONE_MS = 5_000


def decided(offset: int, after_ms: int, *, commit: bool = True, start_ms: int | None = None) -> Decision:
    begun_ms = 100 + offset if start_ms is None else start_ms
    return Decision(0, offset, b"pay", 3, 0, commit, begun_ms, after_ms + 10, (A, B), 0, after_ms)


def marker(offset: int, *, commit: bool = True, ends: int = 0, topic: str = "b") -> SeenMarker:
    return SeenMarker(topic, 0, offset, 3, 0, commit, 200, ends)


def gone(*markers: SeenMarker, unended: int | None = None, seen_ms: int = 1_000) -> EndedLog:
    """Returns the log of partition b-0 up to its deletion. The log has `markers`. At `seen_ms`, the records from offset
    `unended` on had no marker; if `unended` is None, no record was without a marker."""
    records = () if unended is None else (UnendedRecords(3, unended, seen_ms),)
    return EndedLog(*B, "T0", GONE_MS, markers, records)


def compared(decisions: Sequence[Decision], log: EndedLog, *markers: SeenMarker) -> Compared:
    closed = {decision: frozenset(decision.participants) for decision in decisions}
    return compare(decisions, (marker(1, topic="a", commit=decisions[0].is_commit), *markers), closed, {B: [log]})


def words(found: Compared) -> list[Result]:
    return [result for _, result in found.results]


def test_records_deleted_before_the_commit_make_it_torn() -> None:
    one = decided(1, GONE_MS + 1)
    found = compared([one], gone(unended=7))
    assert words(found) == [TORN]
    ((decision, topic, partition, offset, seen_ms),) = found.gone
    assert (decision, topic, partition, offset, seen_ms) == (one, *B, 7, GONE_MS)
    assert [each.topic for each in found.own[one]] == ["a"]
    assert B in found.passed


def test_a_marker_in_the_new_topic_leaves_the_commit_torn() -> None:
    assert words(compared([decided(1, GONE_MS + 1)], gone(unended=7), marker(0, ends=-1))) == [TORN]


@pytest.mark.parametrize(
    ("log", "decision"),
    [
        (gone(), decided(1, GONE_MS + 1)),  # no record of the transaction was sampled there
        (gone(unended=7), decided(1, GONE_MS + 1, commit=False)),  # an abort loses nothing
        (gone(unended=7), decided(1, GONE_MS)),  # the marker may have been written before the deletion
        (gone(unended=7), decided(1, NOT_KNOWN)),
        (gone(unended=7), decided(1, GONE_MS + 1, start_ms=1_001)),  # the records existed before the transaction began
    ],
)
def test_a_commit_without_proof_of_its_loss_is_unseen(log: EndedLog, decision: Decision) -> None:
    assert words(compared([decision], log)) == [UNSEEN]


def test_a_marker_read_before_the_deletion_makes_a_commit_whole() -> None:
    assert words(compared([decided(1, 100)], gone(marker(3)))) == [WHOLE]
    first, second = decided(1, 100), decided(2, GONE_MS + 1)
    found = compared([first, second], gone(marker(3), unended=4), marker(2, topic="a", ends=2))
    assert words(found) == [WHOLE, TORN]


def test_records_perhaps_of_an_earlier_transaction_make_no_commit_torn() -> None:
    found = compared([decided(1, 100), decided(2, GONE_MS + 1)], gone(unended=4), marker(2, topic="a", ends=2))
    assert words(found) == [UNSEEN, UNSEEN]


def test_records_deleted_before_an_abort_make_nothing_torn() -> None:
    decisions = [decided(1, GONE_MS + 1, commit=False), decided(2, GONE_MS + 9)]
    assert words(compared(decisions, gone(unended=4))) == [UNSEEN, UNSEEN]


def test_a_decision_that_is_appended_again_is_as_old_as_the_first() -> None:
    first = decided(1, GONE_MS)
    assert words(compared([first, first._replace(offset=2, after_ms=GONE_MS + 9)], gone(unended=4))) == [UNSEEN]


class World(NamedTuple):
    """Two transactions of one producer id, both with b-0 among their partitions.

    Each transaction has four steps of one second: write, decision, marker on b-0, completion. The steps of the first
    transaction have the numbers 0 to 3, those of the second 4 to 7. The topic is deleted before step `deleted`. The
    steps below `read` were read from b-0 before the deletion. The deletion becomes known before step `known`.
    """

    commits: tuple[bool, bool]
    writes: tuple[bool, bool]
    is_skipped: bool  # the first transaction gets no marker on b-0 (KAFKA-20734)
    bumps: bool
    deleted: int
    read: int
    known: int

    @property
    def truth(self) -> set[int]:
        """Returns the numbers of the committed transactions whose records were deleted before their marker."""
        first = self.commits[0] and self.writes[0] and self.deleted > 0 and (self.is_skipped or self.deleted <= 2)
        second = self.commits[1] and self.writes[1] and 4 < self.deleted <= 6
        return {n for n, is_torn in enumerate((first, second)) if is_torn}

    @property
    def decisions(self) -> list[Decision]:
        return [
            Decision(0, n, b"pay", 3, n + 1 if self.bumps else 0, commit, 4_000 * n, at, (B,), 0, at - 400)
            for n, commit, at in ((0, self.commits[0], 1_500), (1, self.commits[1], 5_500))
        ]

    @property
    def log(self) -> EndedLog:
        markers, first, offset = [], None, 0
        for step in range(self.read):
            n = step // 4
            if step % 4 == 0 and self.writes[n]:
                first = offset if first is None else first
                offset += 1
            if step % 4 == 2 and not (n == 0 and self.is_skipped):
                epoch, ends = self.decisions[n].producer_epoch, -1 if first is None else first
                markers.append(SeenMarker(*B, offset, 3, epoch, self.commits[n], step * 1_000, ends))
                first, offset = None, offset + 1
        unended = () if first is None else (UnendedRecords(3, first, self.read * 1_000),)
        return EndedLog(*B, "T0", self.known * 1_000, tuple(markers), unended)


def worlds() -> list[World]:
    pairs = [(first, second) for first in (True, False) for second in (True, False)]
    places = [(d, r, k) for d in range(9) for r in range(d + 1) for k in range(d, 9)]
    return [
        World(commits, writes, is_skipped, bumps, *place)
        for commits, writes, is_skipped, bumps, place in product(pairs, pairs, (True, False), (True, False), places)
    ]


def test_only_torn_commits_are_called_torn_in_every_small_world() -> None:
    reported = 0
    for world in worlds():
        decisions = world.decisions
        found = compare(decisions, (), {decision: frozenset({B}) for decision in decisions}, {B: [world.log]})
        torn_ones = {decisions.index(decision) for decision, result in found.results if result is TORN}
        assert torn_ones <= world.truth, world
        reported += len(torn_ones)
        is_certain = world.commits[1] and world.writes[1] and not world.is_skipped
        if is_certain and world.read >= 5 and world.known <= 5:
            assert torn_ones == {1}, world
    assert reported > 0


def test_the_finding_names_the_partitions_of_the_deleted_records() -> None:
    transaction = TornTransaction(
        4,
        b"pay",
        "pay",
        3,
        1,
        True,
        LogPlace("__transaction_state", 0, 9),
        70,
        (),
        (MarkerRead("a", 0, 8, True, 71),),
        0,
    )
    seen = torn(transaction._replace(gone=(GonePart("b", 0, 7, 60), GonePart("b", 2, 1, 60))), Rule())
    assert seen.title == (
        "a transaction of pay was committed, and its records on b-0 and b-2 are gone: the topic was deleted during"
        " the transaction"
    )
    assert (seen.severity, seen.detail) == (Severity.CRITICAL, "committed on a-0")
    assert seen.subject == Subject("b", 0, b"pay", 3, 1, 7)
    assert seen.advice.startswith("Nothing brings these records back")
    assert [each.source for each in seen.evidence] == [
        LogPlace("__transaction_state", 0, 9),
        LogPlace("b", 0, 7),
        LogPlace("b", 2, 1),
        LogPlace("a", 0, 8),
    ]
    both = transaction._replace(gone=(GonePart("b", 0, 7, 60),), otherwise=(MarkerRead("c", 1, 5, False, 50),))
    assert torn(both, Rule()).title == (
        "a transaction of pay was committed, and its part on c-1 is aborted; its records on b-0 are gone: the topic was"
        " deleted during the transaction"
    )


def test_advice_about_both_markers_and_deleted_records_speaks_of_both() -> None:
    facts = TornFacts("pay", True, names_of(["a-0"]), names_of(["b-0"]), 1, None, 0)
    advice = facts.words(observe(Kind.TORN)).advice
    assert "isolation.level=read_uncommitted" in advice
    assert "Nothing brings these records back" in advice
