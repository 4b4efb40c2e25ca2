"""Whose producer may be about to take an open entry over: only that is worth waiting for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.findings import kinds
from service.domain.findings.finding import Finding
from service.domain.findings.hanging import subject_of
from service.domain.findings.lifecycle import Look, reconcile
from service.domain.partitions.open_entries import Owner
from service.domain.transaction_log import states
from service.domain.worlds.facts import EntryAsk
from service.domain.worlds.verdict import UNKNOWN, Kind, Proof, Verdict, World
from spark_jobs.judge.hanging_case import DECIDE_AGAIN_MS, OpenCase
from spark_jobs.judge.resolution import observed
from tests.service.domain.findings.test_open_entries import ENTRY, KNOWN, NOW_MS, OWNER

IDLE = OWNER._replace(state=states.COMPLETE_COMMIT, partitions=())


def case(owner: Owner | None = IDLE) -> OpenCase:
    return OpenCase(ENTRY, owner, subject_of(ENTRY, owner), "T", None, (), 0, 120, high_watermark=130, begun_ms=NOW_MS)


PROOF = Proof(Kind.LISTING, NOW_MS, "log", "it lists the partition")


def verdict(*possible: World, proofs: tuple[Proof, ...] = (PROOF,)) -> Verdict:
    decision = possible[0] if len(possible) == 1 else UNKNOWN
    return Verdict(frozenset(possible), decision, proofs, None if len(possible) == 1 else "two are left")


@pytest.mark.parametrize(
    ("found", "was_listed"),
    [
        (verdict(World.COMMIT), True),
        (verdict(World.ABORT), True),
        (verdict(World.COMMIT, World.ABORT), True),
        (verdict(World.NONE), False),
        (verdict(World.ABORT, World.NONE), False),
        (verdict(*World, proofs=()), False),
    ],
)
def test_what_an_ended_transaction_had_listed_is_not_about_to_be_added(found: Verdict, was_listed: bool) -> None:
    one = case()
    assert not one.was_listed
    one.early = found
    assert one.was_listed is was_listed
    assert one.may_be_early(KNOWN, NOW_MS), "it may all the same be its producer's next one"


def asked(one: OpenCase, now_ms: int) -> EntryAsk:
    question = one.question(now_ms)
    assert question is not None
    return question


def told(one: OpenCase) -> Finding:
    """The finding as the store keeps it."""
    observation = observed(one, KNOWN, "broker:9092", NOW_MS)
    (change,) = reconcile({}, Look((observation,), frozenset({kinds.HANGING})), NOW_MS, "cluster")
    return change.finding


def test_nothing_is_decided_before_nobody_owns_it() -> None:
    one = case()
    one.take_verdict(verdict(World.NONE), asked(one, NOW_MS), NOW_MS)
    assert not one.shown.is_known
    assert one.question(NOW_MS + 1) is None, "one reading tells whether anybody is waited for"
    one.unowned_ms = NOW_MS + 2
    one.take_verdict(verdict(World.NONE), asked(one, NOW_MS + 3), NOW_MS + 3)
    assert one.shown.decision == World.NONE
    assert one.question(NOW_MS + 4) is None


def test_what_is_unknown_is_read_further_back_and_then_seldom() -> None:
    one = case()
    one.unowned_ms = NOW_MS
    unknown = verdict(World.COMMIT, World.NONE)
    one.take_verdict(unknown, asked(one, NOW_MS), NOW_MS)
    deep = asked(one, NOW_MS + 1)
    assert deep.is_deep
    one.take_verdict(unknown, deep, NOW_MS + 1)
    assert one.question(NOW_MS + DECIDE_AGAIN_MS) is None
    assert asked(one, NOW_MS + 1 + DECIDE_AGAIN_MS).is_deep


def test_a_decision_may_become_known_and_never_flips() -> None:
    one = case()
    one.unowned_ms = NOW_MS
    ask = asked(one, NOW_MS)
    assert one.take_verdict(verdict(*World), ask, NOW_MS)
    assert one.take_verdict(verdict(World.COMMIT), ask, NOW_MS)
    assert one.take_verdict(verdict(*World), ask, NOW_MS)
    assert one.shown.decision == World.COMMIT, "what was proven stays"
    assert not one.take_verdict(verdict(World.NONE), ask, NOW_MS)
    assert one.shown.decision == UNKNOWN
    assert "contradict" in one.shown.why
    assert one.take_verdict(verdict(World.COMMIT), ask, NOW_MS)
    assert one.shown.decision == UNKNOWN


def test_what_was_known_before_a_restart_stays_while_it_cannot_be_read() -> None:
    one = case()
    found = case()
    found.unowned_ms = NOW_MS
    found.take_verdict(verdict(World.COMMIT), asked(found, NOW_MS), NOW_MS)
    one.recall(told(found))
    assert one.shown.decision == World.COMMIT
    one.unowned_ms = NOW_MS
    assert one.question(NOW_MS) is not None, "it is derived again, once"
    assert one.shown.decision == World.COMMIT


VERDICTS = st.sampled_from(
    [
        verdict(World.COMMIT),
        verdict(World.ABORT),
        verdict(World.NONE),
        verdict(World.COMMIT, World.ABORT),
        verdict(*World, proofs=()),
    ]
)


@given(st.lists(st.tuples(VERDICTS, st.booleans(), st.booleans()), max_size=12))
def test_whatever_is_read_the_marker_never_flips(readings: Sequence[tuple[Verdict, bool, bool]]) -> None:
    """Over restarts, and while the log cannot be read: ABORT (abort or none), COMMIT, or nothing is called for."""
    one = case()
    markers = []
    for found, is_restart, is_blind in readings:
        if is_restart:
            finding, one = told(one), case()
            one.recall(finding)
        one.unowned_ms = NOW_MS
        one.is_blind = False
        if is_blind:
            one.be_blind(())
        elif (ask := one.question(NOW_MS)) is not None:
            one.take_verdict(found, ask, NOW_MS)
        markers.append({"commit": "COMMIT", "unknown": None}.get(told(one).decision or "", "ABORT"))
    phases = [marker for marker, _ in groupby(markers)]
    assert [marker for marker in phases if marker is not None] in ([], ["ABORT"], ["COMMIT"])


def test_what_is_remembered_with_a_name_is_not_judged_as_nobodys() -> None:
    one = case(None)
    one.unowned_ms = NOW_MS
    assert one.question(NOW_MS) is not None
    one.subject = subject_of(ENTRY, IDLE)
    assert one.question(NOW_MS) is None


@pytest.mark.parametrize(
    "owner", [None, IDLE._replace(producer_epoch=5), IDLE._replace(producer_id=8), IDLE._replace(state=states.EXPIRED)]
)
def test_nobody_comes_back_under_what_is_superseded(owner: Owner | None) -> None:
    assert not case(owner).may_be_early(KNOWN, NOW_MS)


def test_who_would_have_been_timed_out_by_now_is_not_early() -> None:
    assert not case().may_be_early(KNOWN, ENTRY.first_seen_ms + IDLE.timeout_ms + KNOWN.limits.scan_ms + 1)


@pytest.mark.parametrize(("stood_for_ms", "was_there_for_ms"), [(None, 0), (500, 500), (-1_000, 0)])
def test_what_holds_the_lso_was_there_when_it_was_first_seen_standing(
    stood_for_ms: int | None, was_there_for_ms: int
) -> None:
    one = case()
    one.stalled_since_ms = None if stood_for_ms is None else ENTRY.first_seen_ms - stood_for_ms
    assert one.there_since_ms == ENTRY.first_seen_ms - was_there_for_ms
