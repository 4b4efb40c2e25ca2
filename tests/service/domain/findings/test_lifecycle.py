"""Tests that findings open, change, end and reopen, in whatever order observations arrive."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Evidence, Finding, Key, Observation, Occurrence, RoundResult, Subject
from service.domain.findings.kinds import QUIET_MS, Kind, Resolution, Severity, Status
from service.domain.findings.lifecycle import MOST_OPEN, REOPENS_WITHIN_MS, SEEN_AGAIN_MS, Change, reconcile
from tests.helpers.findings import finding_facts
from tests.service.domain.findings.builders import NOW_MS, H, M, S

ALL = frozenset(Kind)


def observe(kind: Kind = Kind.OVERDUE, name: bytes = b"a", **fields: Any) -> Observation:
    observation = Observation(
        kind,
        Severity.WARNING,
        Subject(transactional_id=name),
        finding_facts(kind),
        (Evidence(1, "log", "fact"),),
        log_partition=0,
    )
    return observation._replace(**fields)


def happened(*sequences: int, kind: Kind = Kind.TIMED_OUT, name: bytes = b"a", at_ms: int = NOW_MS) -> Observation:
    return observe(kind, name, occurrences=tuple(Occurrence(s, at_ms) for s in sequences))


def round_of(
    *observations: Observation, partitions: frozenset[int] = frozenset({0}), whole: bool = True
) -> RoundResult:
    return RoundResult(observations, ALL, partitions, whole)


class Story:
    """The stored findings after a series of rounds."""

    def __init__(self) -> None:
        self.stored: dict[Key, Finding] = {}

    def see(self, seen: RoundResult, now_ms: int) -> list[Change]:
        changes = reconcile(self.stored, seen, now_ms, "kafka")
        self.stored |= {(c.finding.kind, c.finding.subject): c.finding for c in changes}
        return changes

    def one(self) -> Finding:
        (found,) = self.stored.values()
        return found


def test_a_finding_opens_with_its_condition_and_ends_without_it() -> None:
    story = Story()
    assert [c.event for c in story.see(round_of(observe()), NOW_MS)] == ["opened"]
    found = story.one()
    assert (found.status, found.life.opened_at_ms, found.life.confirmed_at_ms) == (Status.CONFIRMED, NOW_MS, NOW_MS)
    assert story.see(round_of(observe()), NOW_MS + 1) == []
    assert [c.event for c in story.see(round_of(), NOW_MS + 2)] == ["resolved"]
    assert (story.one().status, story.one().life.resolution) == (Status.RESOLVED, Resolution.HEALED)
    assert story.see(round_of(), NOW_MS + 3) == []


def test_a_stuck_completion_is_resolved_by_a_coordinator_marker() -> None:
    story = Story()
    story.see(round_of(observe(Kind.STUCK_COMPLETION)), NOW_MS)
    story.see(round_of(), NOW_MS + 1)
    assert story.one().life.resolution == Resolution.COORDINATOR_MARKER


@pytest.mark.parametrize(
    "unjudged",
    [
        RoundResult((), frozenset({Kind.STUCK_COMPLETION}), frozenset({0}), True),
        round_of(partitions=frozenset({1}), whole=False),
        RoundResult((), ALL, frozenset({0}), True, frozenset({b"b"})),
    ],
)
def test_a_finding_that_cannot_be_judged_stays_open(unjudged: RoundResult) -> None:
    story = Story()
    story.see(round_of(observe()), NOW_MS)
    assert story.see(unjudged, NOW_MS + H) == []


def test_a_finding_about_many_ids_ends_only_if_all_can_be_judged() -> None:
    story = Story()
    story.see(round_of(observe(subject=Subject(), log_partition=None)), NOW_MS)
    assert story.see(round_of(whole=False), NOW_MS + 1) == []
    assert len(story.see(round_of(), NOW_MS + 2)) == 1


def test_a_finding_reopens_within_a_day_and_is_a_new_one_later() -> None:
    story = Story()
    story.see(round_of(observe()), NOW_MS)
    first = story.one().id
    story.see(round_of(), NOW_MS + 1)
    assert [c.event for c in story.see(round_of(observe()), NOW_MS + 1 + REOPENS_WITHIN_MS)] == ["reopened"]
    found = story.one()
    assert (found.id, found.life.reopened, found.life.opened_at_ms, found.life.resolved_at_ms) == (
        first,
        True,
        NOW_MS,
        None,
    )
    assert found.life.resolution is None
    later = NOW_MS + 2 * REOPENS_WITHIN_MS
    story.see(round_of(), later)
    assert [c.event for c in story.see(round_of(observe()), later + REOPENS_WITHIN_MS + 1)] == ["opened"]
    assert story.one().id != first
    assert not story.one().life.reopened


@pytest.mark.parametrize("kind", sorted(UNTIL_ACKNOWLEDGED))
def test_only_an_acknowledgement_ends_a_finding_that_waits_for_one(kind: Kind) -> None:
    story = Story()
    story.see(round_of(happened(5, kind=kind)), NOW_MS)
    assert story.see(round_of(), NOW_MS + 400 * 24 * H) == []
    assert story.see(round_of(happened(5, kind=kind)), NOW_MS + 400 * 24 * H) == [], "the same event is counted once"
    given = RoundResult((), frozenset({kind}), resolutions={story.one().subject: Resolution.ACKNOWLEDGED})
    assert [c.event for c in story.see(given, NOW_MS + 401 * 24 * H)] == ["resolved"]
    assert (story.one().life.resolution, story.one().life.count) == (Resolution.ACKNOWLEDGED, 1)
    assert story.see(round_of(happened(5, kind=kind)), NOW_MS + 401 * 24 * H) == [], (
        "the same event does not reopen the finding"
    )


def test_a_candidate_is_confirmed_or_withdrawn() -> None:
    story = Story()
    seen = observe(Kind.COORDINATOR_MISMATCH, confirmed=False)
    story.see(round_of(seen), NOW_MS)
    assert (story.one().status, story.one().life.confirmed_at_ms) == (Status.CANDIDATE, None)
    confirmed = story.see(round_of(seen._replace(confirmed=True)), NOW_MS + 1)
    assert [(c.event, c.finding.status, c.finding.life.confirmed_at_ms) for c in confirmed] == [
        ("confirmed", Status.CONFIRMED, NOW_MS + 1)
    ]
    withdrawn = Story()
    withdrawn.see(round_of(seen), NOW_MS)
    withdrawn.see(round_of(), NOW_MS + 1)
    found = withdrawn.one()
    assert (found.status, found.life.resolution, found.life.confirmed_at_ms) == (
        Status.RESOLVED,
        Resolution.NOT_HANGING,
        None,
    )


def test_listeners_get_changes_of_the_severity_but_not_of_the_facts() -> None:
    story = Story()
    story.see(round_of(observe()), NOW_MS)
    assert [c.event for c in story.see(round_of(observe(facts=finding_facts(Kind.OVERDUE, "b"))), NOW_MS + 1)] == [None]
    assert [c.event for c in story.see(round_of(observe(severity=Severity.CRITICAL)), NOW_MS + 2)] == ["updated"]


def test_an_open_finding_is_written_once_a_minute() -> None:
    story = Story()
    story.see(round_of(observe()), NOW_MS)
    assert story.see(round_of(observe()), NOW_MS + SEEN_AGAIN_MS - 1) == []
    (change,) = story.see(round_of(observe()), NOW_MS + SEEN_AGAIN_MS)
    assert (change.finding.life.last_seen_ms, change.event) == (NOW_MS + SEEN_AGAIN_MS, None)


def test_a_finding_counts_each_event_once_and_ends_after_a_quiet_time() -> None:
    story = Story()
    story.see(round_of(happened(1, 2)), NOW_MS)
    assert story.see(round_of(happened(1, 2)), NOW_MS + 1) == []
    story.see(round_of(happened(1, 2, 5, at_ms=NOW_MS + M)), NOW_MS + M)
    assert (story.one().life.count, story.one().life.last_seen_ms) == (3, NOW_MS + M)
    assert story.see(round_of(), NOW_MS + M + QUIET_MS - 1) == []
    assert [c.event for c in story.see(round_of(), NOW_MS + M + QUIET_MS)] == ["resolved"]
    assert story.see(round_of(happened(1, 2, 5)), NOW_MS + M + QUIET_MS + 1) == []  # the same observation again
    story.see(round_of(happened(6)), NOW_MS + H)
    assert (story.one().life.count, story.one().life.reopened) == (4, True)


def test_an_event_in_the_future_does_not_keep_a_finding_open() -> None:
    story = Story()
    story.see(round_of(happened(1, at_ms=NOW_MS + 100 * H)), NOW_MS)
    assert len(story.see(round_of(), NOW_MS + QUIET_MS)) == 1


def test_open_findings_of_one_kind_are_bounded() -> None:
    story = Story()
    many = [observe(name=b"%d" % n) for n in range(MOST_OPEN + 50)]
    assert len(story.see(round_of(*many), NOW_MS)) == MOST_OPEN
    assert story.see(round_of(*many), NOW_MS + 1) == []


NAMES = st.sampled_from([b"a", b"b", b"c"])
CONDITIONS = st.builds(
    observe,
    kind=st.sampled_from([Kind.OVERDUE, Kind.LONG_RUNNING, Kind.COORDINATOR_MISMATCH]),
    name=NAMES,
    severity=st.sampled_from(tuple(Severity)),
    confirmed=st.booleans(),
)
EVENTS = st.builds(
    lambda kind, name, sequences: happened(*sorted(sequences), kind=kind, name=name),
    st.sampled_from([Kind.TIMED_OUT, Kind.EXPIRED]),
    NAMES,
    st.sets(st.integers(0, 30), min_size=1, max_size=4),
)
LOOKS = st.lists(st.lists(CONDITIONS | EVENTS, max_size=6), max_size=8)


@settings(max_examples=200)
@given(LOOKS, st.randoms(use_true_random=False))
def test_findings_do_not_depend_on_order_or_repetition_and_all_end(
    looks: list[list[Observation]], rng: random.Random
) -> None:
    straight, shuffled = Story(), Story()
    for number, observations in enumerate(looks):
        now_ms = NOW_MS + number * S
        straight.see(round_of(*observations), now_ms)
        mixed = [*observations, *rng.sample(observations, rng.randint(0, len(observations)))]
        rng.shuffle(mixed)
        shuffled.see(round_of(*mixed), now_ms)
        assert shuffled.see(round_of(*mixed), now_ms) == []  # applying a round twice changes nothing
        assert shuffled.stored == straight.stored
    for minute in range(17):
        straight.see(round_of(), NOW_MS + 10 * S + minute * M)
    assert not any(found.is_open for found in straight.stored.values())
    assert all(found.life.resolution for found in straight.stored.values())
