"""Tests of the decision about an open entry: which readings change the decision, and which states no decision
reaches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.reasons.hanging import Contradiction, ForeignRecords, ForeignSign, HasGrown, SeveralLeft
from service.domain.reasons.unread import ErrorText
from service.domain.worlds.verdict import (
    NEXT,
    READ_AGAIN_MS,
    Decided,
    Decision,
    Proof,
    ProofKind,
    State,
    Verdict,
    World,
    undecided,
)

NOW_MS = 1_700_000_000_000
PROOF = Proof(ProofKind.LISTING, NOW_MS, "log", "it lists the partition")


def verdict(*possible: World, proofs: tuple[Proof, ...] = (PROOF,)) -> Verdict:
    decision = Decided(possible[0]) if len(possible) == 1 else Decided.UNKNOWN
    return Verdict(frozenset(possible), decision, proofs, None if len(possible) == 1 else SeveralLeft(True, True))


def read(before: Decision, found: Verdict, at_ms: int = NOW_MS, unowned_ms: int | None = NOW_MS) -> Decision:
    return before.after(found, at_ms, unowned_ms, is_deep=before.state is State.UNKNOWN)


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
def test_an_ended_transaction_that_wrote_the_entry_listed_the_partition(found: Verdict, was_listed: bool) -> None:
    assert not Decision().was_listed
    assert read(Decision(), found, unowned_ms=None).was_listed is was_listed


def test_a_reading_while_a_transaction_may_end_the_entry_is_not_reported() -> None:
    early = read(Decision(), verdict(World.NONE), unowned_ms=None)
    assert not early.verdict.is_known
    assert not early.is_due(NOW_MS + 1, None), "no second reading while a transaction may end the entry"
    assert early.is_due(NOW_MS + 2, NOW_MS + 2)
    assert read(early, verdict(World.NONE), NOW_MS + 1, NOW_MS + 2).verdict == early.verdict, (
        "a reading from before step 2 does not count"
    )
    known = read(early, verdict(World.NONE), NOW_MS + 3, NOW_MS + 2)
    assert known.verdict.decision == Decided.NONE
    assert not known.is_due(NOW_MS + 4, NOW_MS + 2)


def test_an_unknown_decision_is_read_further_back_at_once_and_then_seldom() -> None:
    unknown = read(Decision(), verdict(World.COMMIT, World.NONE))
    assert unknown.is_due(NOW_MS, NOW_MS)
    deep = read(unknown, verdict(World.COMMIT, World.NONE))
    assert not deep.is_due(NOW_MS + READ_AGAIN_MS - 1, NOW_MS)
    assert deep.is_due(NOW_MS + READ_AGAIN_MS, NOW_MS)


def test_a_known_decision_is_read_again_where_step_2_was_made_again() -> None:
    known = read(Decision(), verdict(World.ABORT))
    assert not known.is_due(NOW_MS + READ_AGAIN_MS, NOW_MS)
    assert not known.is_due(NOW_MS + READ_AGAIN_MS, None), "a transaction may end the entry now"
    assert known.is_due(NOW_MS + READ_AGAIN_MS, NOW_MS + 1)


def test_a_decision_may_become_known_and_never_flips() -> None:
    unknown = read(Decision(), verdict(*World))
    committed = read(unknown, verdict(World.COMMIT))
    assert read(committed, verdict(*World)).verdict.decision == Decided.COMMIT, (
        "the proof holds although its source is gone"
    )
    contradicted = read(committed, verdict(World.NONE))
    assert contradicted.state is State.CONTRADICTED
    assert not contradicted.verdict.is_known
    assert "contradict" in str(contradicted.verdict.why)
    assert read(contradicted, verdict(World.COMMIT)) == contradicted
    assert not contradicted.is_due(NOW_MS + READ_AGAIN_MS, NOW_MS)


def test_abort_and_none_call_for_one_marker_and_are_no_contradiction() -> None:
    aborted = read(Decision(), verdict(World.ABORT))
    assert read(aborted, verdict(World.NONE)).verdict.decision == Decided.ABORT


def test_a_commit_is_unknown_after_records_with_another_outcome_follow() -> None:
    """No marker is right for an entry with records of a committed and of an aborted transaction."""
    committed = read(Decision(), verdict(World.COMMIT))
    assert committed.reported(NOW_MS + 1).why == HasGrown()
    grown = committed.after(verdict(World.COMMIT, World.ABORT), NOW_MS + 1, NOW_MS, is_deep=False, has_grown=True)
    assert grown.verdict.decision == Decided.UNKNOWN


def test_more_records_do_not_remove_committed_ones() -> None:
    committed = read(Decision(), verdict(World.COMMIT))
    read_again = committed.after(verdict(World.ABORT), NOW_MS + 1, NOW_MS, is_deep=False, has_grown=True)
    assert read_again.state is State.CONTRADICTED


def grown(before: Decision, found: Verdict) -> Decision:
    return before.after(found, before.read_at_ms + 1, NOW_MS, is_deep=False, has_grown=True)


def test_committed_records_are_remembered_while_the_decision_is_unknown() -> None:
    committed = read(Decision(), verdict(World.COMMIT))
    assert committed.reported(NOW_MS + 1).holds_committed
    unknown = grown(committed, verdict(*World, proofs=()))
    assert unknown.verdict.decision == Decided.UNKNOWN
    assert unknown.verdict.holds_committed
    assert read(unknown, verdict(World.ABORT)).state is State.CONTRADICTED
    assert read(unknown, verdict(World.COMMIT)).verdict.decision == Decided.COMMIT


def test_a_reading_that_proves_only_some_records_committed_rules_out_an_abort() -> None:
    some = read(Decision(), verdict(*World)._replace(holds_committed=True))
    assert read(some, verdict(World.NONE)).state is State.CONTRADICTED


def test_a_commit_does_not_follow_an_abort_even_if_the_entry_has_grown() -> None:
    aborted = read(Decision(), verdict(World.ABORT))
    assert grown(aborted, verdict(World.COMMIT)).state is State.CONTRADICTED
    unknown = grown(aborted, verdict(World.COMMIT, World.ABORT))
    assert read(unknown, verdict(World.COMMIT)).state is State.CONTRADICTED
    assert read(unknown, verdict(World.NONE)).verdict.decision == Decided.NONE


def test_records_of_another_cluster_leave_nothing_to_contradict() -> None:
    committed = read(Decision(), verdict(World.COMMIT))
    foreign = read(committed, undecided(ForeignRecords(ForeignSign.EPOCH, 9, 4)))
    assert foreign.verdict.decision == Decided.UNKNOWN
    assert not foreign.verdict.holds_committed


def test_a_recalled_decision_is_derived_again_once() -> None:
    recalled = Decision().recalled(verdict(World.COMMIT))
    assert not recalled.is_due(NOW_MS, None)
    assert recalled.is_due(NOW_MS, NOW_MS)
    known = read(recalled, verdict(*World))
    assert known.verdict.decision == Decided.COMMIT
    assert not known.is_due(NOW_MS + READ_AGAIN_MS, NOW_MS)
    assert read(recalled, verdict(World.ABORT)).state is State.CONTRADICTED


def test_a_recalled_contradiction_stays() -> None:
    reported = undecided(Contradiction(ErrorText("this"), ErrorText("that")))
    recalled = Decision().recalled(verdict(World.COMMIT)).recalled(reported)
    assert recalled.recalled(verdict(World.COMMIT)) == recalled
    assert read(recalled, verdict(World.COMMIT)) == recalled


def test_without_the_log_only_a_recalled_decision_is_known() -> None:
    none = Decision().without_log()
    assert not none.verdict.is_known
    assert not none.is_due(NOW_MS, NOW_MS)
    assert Decision().recalled(verdict(World.COMMIT)).without_log().verdict.decision == Decided.COMMIT


READINGS = st.sampled_from(
    [
        verdict(World.COMMIT),
        verdict(World.ABORT),
        verdict(World.NONE),
        verdict(World.COMMIT, World.ABORT),
        verdict(*World, proofs=()),
    ]
)


@given(st.lists(st.tuples(READINGS, st.booleans(), st.booleans()), max_size=12))
def test_every_sequence_of_readings_calls_for_one_marker_at_most(
    readings: Sequence[tuple[Verdict, bool, bool]],
) -> None:
    """Only the transitions in NEXT occur. The advised marker, which is ABORT for the decisions abort and none, never
    changes between ABORT and COMMIT."""
    now, markers = Decision(), []
    for found, is_unowned, has_grown in readings:
        unowned_ms = NOW_MS if is_unowned else None
        after = now.after(found, NOW_MS, unowned_ms, is_deep=now.state is State.UNKNOWN, has_grown=has_grown)
        assert after == now or after.state in NEXT[now.state]
        now = after
        markers.append({"commit": "COMMIT", "unknown": None}.get(now.verdict.decision, "ABORT"))
    assert len(set(markers) - {None}) <= 1


def test_no_state_leads_back_to_unread() -> None:
    assert not any(State.UNREAD in following for following in NEXT.values())
    assert NEXT.keys() == set(State)
