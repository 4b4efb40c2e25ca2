"""Tests of a kind of finding with too many cases. A case without a finding is counted until the case gets a finding or
ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.domain.findings.finding import Finding, Key, Observation, Occurrence, RoundResult, Subject
from service.domain.findings.kinds import QUIET_MS, Kind, Severity
from service.domain.findings.lifecycle import MOST_OPEN, Truncation, reconcile
from tests.helpers.findings import finding_facts
from tests.service.domain.findings.builders import NOW_MS

OVERDUE, TIMED_OUT = frozenset({Kind.OVERDUE}), frozenset({Kind.TIMED_OUT})


def overdue(number: int) -> Observation:
    subject = Subject(transactional_id=b"id-%04d" % number)
    return Observation(Kind.OVERDUE, Severity.WARNING, subject, finding_facts(Kind.OVERDUE), ())


def timed_out(number: int, at_ms: int = NOW_MS) -> Observation:
    observation = overdue(number)._replace(kind=Kind.TIMED_OUT)
    return observation._replace(occurrences=(Occurrence(number, at_ms),))


class Judge:
    def __init__(self) -> None:
        self.known: dict[Key, Finding] = {}
        self.truncation = Truncation()

    def judge_round(
        self, observations: Iterable[Observation], of: frozenset[Kind] = OVERDUE, now_ms: int = NOW_MS, **more: Any
    ) -> dict[Kind, int]:
        result = RoundResult(tuple(observations), of, is_log_complete=True)._replace(**more)
        for change in reconcile(self.known, result, now_ms, "kafka"):
            self.known[change.finding.kind, change.finding.subject] = change.finding
        self.truncation.apply_round(self.known, result, now_ms)
        return self.truncation.counts()

    @property
    def open(self) -> int:
        return sum(finding.is_open for finding in self.known.values())


def test_no_case_is_left_out_up_to_the_bound() -> None:
    judge = Judge()
    assert judge.judge_round(overdue(n) for n in range(MOST_OPEN)) == {}
    assert judge.open == MOST_OPEN


def test_cases_beyond_the_bound_are_counted_and_open_when_others_end() -> None:
    judge = Judge()
    assert judge.judge_round(overdue(n) for n in range(250)) == {Kind.OVERDUE: 50}
    assert judge.judge_round(overdue(n) for n in range(250)) == {Kind.OVERDUE: 50}, "no case is counted twice"
    assert judge.judge_round(overdue(n) for n in range(30, 250)) == {Kind.OVERDUE: 50}
    assert judge.judge_round(overdue(n) for n in range(30, 250)) == {Kind.OVERDUE: 20}, (
        "30 cases ended, and 30 others got findings"
    )
    assert judge.judge_round(overdue(n) for n in range(30, 235)) == {Kind.OVERDUE: 5}
    assert judge.judge_round(overdue(n) for n in range(40, 235)) == {Kind.OVERDUE: 5}
    assert judge.judge_round(overdue(n) for n in range(40, 235)) == {}


def test_a_round_changes_only_the_counts_of_the_kinds_and_ids_it_judged() -> None:
    judge = Judge()
    judge.judge_round(overdue(n) for n in range(250))
    assert judge.judge_round((), frozenset({Kind.EXPIRING})) == {Kind.OVERDUE: 50}
    others = frozenset({b"id-0001", b"id-0249"})
    assert judge.judge_round((), ids=others) == {Kind.OVERDUE: 49}, "only these two ids were judged"


def test_a_log_partition_that_is_not_read_to_its_end_keeps_its_count() -> None:
    judge = Judge()
    judge.judge_round((overdue(n)._replace(log_partition=n % 2) for n in range(300)), partitions=frozenset({0, 1}))
    even = [overdue(n)._replace(log_partition=0) for n in range(0, 300, 2)]
    assert judge.judge_round(even, partitions=frozenset({0})) == {Kind.OVERDUE: 100}
    assert judge.judge_round(even, partitions=frozenset({0, 1})) == {Kind.OVERDUE: 50}
    assert judge.judge_round(even, partitions=frozenset({0, 1})) == {}


def test_events_count_as_left_out_as_long_as_they_would_be_open() -> None:
    judge = Judge()
    many = [timed_out(n, NOW_MS - n) for n in range(201)]
    assert judge.judge_round(many, TIMED_OUT) == {Kind.TIMED_OUT: 1}
    assert judge.judge_round((), TIMED_OUT, NOW_MS + QUIET_MS // 2) == {Kind.TIMED_OUT: 1}, "nothing new was read"
    assert judge.judge_round((), TIMED_OUT, NOW_MS + QUIET_MS) == {}


def test_unread_cases_count_as_left_out_until_they_are_read() -> None:
    judge = Judge()
    unread = {Kind.OVERDUE: 700, Kind.STUCK_COMPLETION: 0}
    assert judge.judge_round((overdue(n) for n in range(201)), unread=unread) == {Kind.OVERDUE: 701}
    assert judge.judge_round((overdue(n) for n in range(201)), unread={Kind.STUCK_COMPLETION: 3}) == {
        Kind.OVERDUE: 701,
        Kind.STUCK_COMPLETION: 3,
    }
    assert judge.judge_round((), unread={Kind.OVERDUE: 0, Kind.STUCK_COMPLETION: 0}) == {}
