"""Tests of the rules about the current state of ids: when a rule reports a finding, and the texts and counts of the
finding."""

from __future__ import annotations

import re
from typing import Any

import pytest

from service.domain.findings import ids_running_out, open_too_long
from service.domain.findings.advice import Answer
from service.domain.findings.conditions import MOST_IDS, IdState
from service.domain.findings.context import Context
from service.domain.findings.finding import Observation, Subject
from service.domain.findings.kinds import Severity
from service.domain.findings.mismatch import (
    NOT_FOUND,
    Compared,
    CoordinatorAnswer,
    WithoutMarker,
    answer_of,
    is_comparable,
    mismatches,
)
from service.domain.findings.rules import Rule
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.coordinator_partition import is_left_behind
from service.domain.transaction_log.deadlines import ABORT_SLACK_MS
from service.domain.transaction_log.known_log import SCAN_CONFIG, LogProgress, known_log, limits_of
from service.domain.transaction_log.states import EXPIRATION_CONFIG, TWO_PHASE_TIMEOUT_MS
from tests.service.domain.findings.builders import NOW_MS, H, M, S, context, id_now


def overdue(ids: list[IdState], known: Context) -> list[Observation]:
    return open_too_long.overdue(ids, known, open_too_long.Surroundings())


def long_running(ids: list[IdState], known: Context) -> list[Observation]:
    return open_too_long.long_running(ids, known, {})


DUE = 60 * S + 10 * S + ABORT_SLACK_MS


@pytest.mark.parametrize(
    ("id_state", "severity", "confidence"),
    [
        (id_now(age_ms=DUE - 1), None, None),
        (id_now(age_ms=DUE), Severity.WARNING, Confidence.LIKELY),
        (id_now(age_ms=DUE + 59 * S), Severity.WARNING, Confidence.LIKELY),
        (id_now(age_ms=DUE + 60 * S), Severity.CRITICAL, Confidence.CERTAIN),
        (id_now(age_ms=H, timeout_ms=2 * H), None, None),
        (id_now(age_ms=H, timeout_ms=TWO_PHASE_TIMEOUT_MS), None, None),
        (id_now(age_ms=H, state=states.PREPARE_ABORT), None, None),  # the outcome is already decided
        (id_now(age_ms=H, started_at_ms=-1), None, None),
    ],
)
def test_a_transaction_is_overdue_after_its_timeout_scan_and_slack(
    id_state: IdState, severity: str | None, confidence: str | None
) -> None:
    found = overdue([id_state], context())
    assert [(o.severity, o.confidence) for o in found] == ([(severity, confidence)] if severity else [])


def test_overdue_needs_the_log_read_up_to_the_time_the_abort_was_due() -> None:
    """Until the id's partition of the transaction log is read up to the time the abort was due, the abort may be among
    the unread records."""
    id_state = id_now(age_ms=DUE + M)
    assert overdue([id_state], context(until_ms=NOW_MS - M - 1)) == []
    assert len(overdue([id_state], context(until_ms=NOW_MS - M))) == 1
    elsewhere = context()
    elsewhere = elsewhere._replace(log=elsewhere.log._replace(known_until_ms={1: NOW_MS}))
    assert overdue([id_state], elsewhere) == []


def test_a_log_partition_is_known_if_read_to_an_end_requested_lately() -> None:
    views = [
        LogProgress(0, 1, 50, 50, NOW_MS - 10 * S),
        LogProgress(1, 1, 49, 50, NOW_MS),
        LogProgress(2, 1, 50, 50, NOW_MS - 10 * S - 1),
    ]
    found = known_log(limits_of({}), views, NOW_MS)
    assert (dict(found.known_until_ms), found.is_complete) == ({0: NOW_MS - 10 * S}, False)
    assert known_log(limits_of({}), views[:1], NOW_MS).is_complete
    assert not known_log(limits_of({}), [], NOW_MS).is_complete


def test_a_read_from_before_the_clock_was_set_back_is_not_fresh() -> None:
    """After the clock was set back, the time of an earlier read lies in the future. If that time is more than 1 s
    ahead, the read does not count as fresh."""
    just_written = LogProgress(0, 1, 50, 50, NOW_MS + 1 * S)
    assert known_log(limits_of({}), [just_written], NOW_MS).is_complete
    set_back = LogProgress(1, 1, 50, 50, NOW_MS + 1 * S + 1)
    found = known_log(limits_of({}), [just_written, set_back], NOW_MS)
    assert (dict(found.known_until_ms), found.is_complete) == ({0: NOW_MS + 1 * S}, False)


def test_a_finding_by_an_assumed_config_says_so_and_is_never_certain() -> None:
    (found,) = overdue([id_now(age_ms=H)], context(assumed=[SCAN_CONFIG]))
    assert found.confidence == Confidence.LIKELY
    assert "assumed" in found.evidence[1].text
    assert limits_of({}).assumed >= {SCAN_CONFIG, EXPIRATION_CONFIG}
    reported = {
        SCAN_CONFIG: {"value": "300", "source": "broker"},
        EXPIRATION_CONFIG: {"value": "9", "source": "assumed"},
    }
    limits = limits_of(reported)
    assert (limits.scan_ms, limits.expiration_ms) == (300, 604_800_000)
    assert SCAN_CONFIG not in limits.assumed


@pytest.mark.parametrize("state", [states.PREPARE_COMMIT, states.PREPARE_ABORT])
def test_a_completion_is_stuck_since_its_first_decision(state: int) -> None:
    """The coordinator appended its decision again 2 s ago. The time of the first decision counts."""
    id_state = id_now(state=state, age_ms=2 * S, state_since_ms=NOW_MS - 70 * S)
    (found,) = open_too_long.stuck([id_state], {}, context())
    assert found.severity == "critical"


@pytest.mark.parametrize("state", [states.PREPARE_COMMIT, states.PREPARE_ABORT])
def test_a_stuck_completion_names_the_partitions_without_a_marker(state: int) -> None:
    id_state = id_now(state=state, age_ms=10 * S)
    (found,) = open_too_long.stuck([id_state], {}, context())
    assert found.severity == Severity.WARNING
    assert "which of orders-0 and orders-3 lack their marker" in found.summary
    (found,) = open_too_long.stuck([id_state], {b"pay-1": (WithoutMarker("orders", 3, 2),)}, context())
    assert "leader of orders-3 has not" in found.summary
    assert found.evidence[-1].text == "no marker yet on orders-3 (leader broker 2)"
    many = (*(WithoutMarker("orders", n, -1) for n in range(10)), *(WithoutMarker("orders", n) for n in range(10, 40)))
    (found,) = open_too_long.stuck([id_state], {b"pay-1": many}, context())
    assert re.search(r"orders-0.* and 3\d more have not", found.summary), found.summary
    assert found.evidence[-1].text.endswith("orders-9 (leader none) and 30 more")
    (found,) = open_too_long.stuck([id_state], {b"pay-1": ()}, context())
    assert "reports no partition without a marker, but has not written the end" in found.summary
    assert "topics that txnscope has no permission to describe" in found.advice
    (found,) = open_too_long.stuck([id_now(state=state, age_ms=70 * S)], {}, context())
    assert found.severity == Severity.CRITICAL
    assert open_too_long.stuck([id_now(state=state, age_ms=10 * S - 1)], {}, context()) == []


def test_a_long_running_transaction_is_an_info_with_its_latest_end() -> None:
    (found,) = long_running([id_now(age_ms=M, timeout_ms=15 * M)], context())
    assert (found.severity, found.self_heals_at_ms) == (
        Severity.INFO,
        NOW_MS - M + 15 * M + 10 * S + ABORT_SLACK_MS,
    )
    assert "discarded" in found.evidence[1].text
    (found,) = long_running([id_now(age_ms=H, timeout_ms=TWO_PHASE_TIMEOUT_MS)], context())
    assert found.self_heals_at_ms is None
    assert "two-phase" in found.evidence[1].text
    assert long_running([id_now(age_ms=M - 1)], context()) == []
    assert long_running([id_now(age_ms=H)], context()) == []  # this one is overdue


def test_user_rules_set_the_limit_and_the_owner_of_a_long_transaction() -> None:
    long = Rule(prefix="pay", long_after_ms=5 * S, owner="payments", mute_until_ms=9)
    late = Rule(topic="ord*", long_after_ms=2 * H)
    (found,) = long_running([id_now(age_ms=5 * S)], context(long))
    assert (found.severity, found.owner, found.muted_until_ms) == (Severity.WARNING, "payments", 9)
    assert long_running([id_now(age_ms=M, timeout_ms=H)], context(late)) == []
    assert len(long_running([id_now(age_ms=5 * S)], context(late, long))) == 0  # "ord*" is longer


def test_overdue_transactions_beyond_the_bound_share_a_finding() -> None:
    many = [id_now(f"pay-{n}", age_ms=H) for n in range(MOST_IDS + 12)]
    found = overdue(many, context())
    assert len(found) == MOST_IDS + 1
    assert found[-1].subject == Subject()
    assert (found[-1].ids, found[-1].log_partition) == (12, None)
    assert found[-1].summary.startswith("12 more transactions")


def test_expiring_ids_share_a_finding_by_prefix() -> None:
    idle_ms = 168 * H - 2 * H
    few = [id_now(f"pay-{n}", states.EMPTY, idle_ms) for n in range(2)]
    many = [id_now(f"job-{n}", states.COMPLETE_COMMIT, idle_ms - n) for n in range(9)]
    found = ids_running_out.expiring([*few, *many], context())
    assert [(o.subject, o.ids) for o in found] == [
        (Subject(transactional_id=b"pay-0"), 1),
        (Subject(transactional_id=b"pay-1"), 1),
        (Subject(prefix="job-"), 9),
    ]
    assert {o.severity for o in found} == {Severity.INFO}
    assert "2026-09-21 16:13:20 UTC" in found[0].summary


def test_a_shared_finding_about_expiring_ids_counts_ids_and_not_prefixes() -> None:
    groups = MOST_IDS + 2
    ids = [
        id_now(f"{chr(97 + n // 26)}{chr(97 + n % 26)}-{i}", states.EMPTY, 166 * H)
        for n in range(groups)
        for i in range(9)
    ]
    found = ids_running_out.expiring(ids, context())[-1]
    assert (found.subject, found.ids) == (Subject(), 18)
    assert found.summary.startswith("18 more")


def test_a_short_expiration_shortens_the_notice_before_expiry() -> None:
    assert ids_running_out.soon_ms(168 * H) == 24 * H
    assert ids_running_out.soon_ms(7 * S) == S


def test_an_epoch_near_the_maximum_is_a_warning() -> None:
    (found,) = ids_running_out.epoch_exhaustion([id_now(producer_epoch=31_000)], context())
    assert (found.severity, found.log_partition) == (Severity.WARNING, 0)
    assert "31,000 of the 32,767" in found.summary
    # below the last epoch, a start only raises the epoch by one (TransactionMetadata.isProducerEpochExhausted)
    assert "A start while the id is idle assigns a new producer id only from epoch 32,766 on" in found.advice


def answer(id_state: IdState, state: str = "Ongoing") -> CoordinatorAnswer:
    said = state, id_state.producer_id, id_state.producer_epoch
    return CoordinatorAnswer(id_state.transactional_id, id_state.offset, NOW_MS - 2 * S, NOW_MS - S, *said)


@pytest.mark.parametrize(
    ("said", "is_comparable_", "differs"),
    [
        ({}, True, False),
        ({"state": NOT_FOUND, "producer_id": -1, "producer_epoch": -1}, True, True),
        ({"state": "CompleteAbort"}, True, True),
        ({"producer_epoch": 3}, True, True),
        ({"offset": 39}, False, False),  # a record was written in between
        ({"answered_at_ms": NOW_MS}, False, False),  # the log is not known up to that time
    ],
)
def test_a_different_answer_of_the_coordinator_is_a_mismatch(
    said: dict[str, Any], is_comparable_: bool, differs: bool
) -> None:
    id_state = id_now()
    reported = answer(id_state)._replace(**said)
    assert is_comparable(reported, id_state, context()) == is_comparable_
    assert reported.agrees(id_state) != differs or not is_comparable_


def test_a_mismatch_is_confirmed_by_the_second_answer() -> None:
    id_state = id_now()
    compared = Compared(answer(id_state, NOT_FOUND), id_state)
    first = mismatches([compared], [], context())
    second = mismatches([compared], [id_state.transactional_id], context())
    assert [o.confirmed for o in (*first.observations, *second.observations)] == [False, True]
    assert re.search(r"broker 10.*does not know the id", second.observations[0].summary)
    assert second.observations[0].evidence[-1].at_ms == compared.answer.answered_at_ms
    healed = mismatches([Compared(answer(id_state), id_state)], [id_state.transactional_id], context())
    assert healed.observations == ()
    assert healed.ids == frozenset({id_state.transactional_id})


@pytest.mark.parametrize(
    "said",
    [
        {"state": "Ongoing", "producer_epoch": 3},  # a fence was not appended: only the memory has its epoch
        {"state": "CompleteAbort"},  # the record is in the log, but its append counts as failed
    ],
)
def test_a_partial_load_is_blamed_first_only_if_the_id_is_not_known(said: dict[str, Any]) -> None:
    id_state = id_now()
    (found,) = mismatches(
        [Compared(answer(id_state)._replace(**said), id_state)], [id_state.transactional_id], context()
    ).observations
    assert not found.advice.startswith("The coordinator may have loaded its partition only in part")
    assert "an append that the coordinator considers failed" in found.advice
    (unknown,) = mismatches([Compared(answer(id_state, NOT_FOUND), id_state)], [], context()).observations
    assert unknown.advice.startswith("The coordinator may have loaded its partition only in part")


def test_a_coordinator_with_more_partitions_than_are_known_yet_contradicts_nothing() -> None:
    """Partitions were added to the transaction log, and the coordinator has restarted. The store still has the old
    number of partitions."""
    id_state = id_now()
    number = next(n for n in range(2, 100) if is_left_behind(id_state.transactional_id, id_state.partition, n))
    compared = Compared(answer(id_state, NOT_FOUND)._replace(log_partitions=number), id_state)
    assert mismatches([compared], [], context()).observations == ()
    assert answer_of(compared, context()) == Answer.NONE
    before = Compared(answer(id_state, NOT_FOUND), id_state)
    assert len(mismatches([before], [], context()).observations) == 1
    assert answer_of(before, context()) == Answer.NOT_FOUND


def test_an_id_that_is_gone_cannot_be_compared() -> None:
    assert not is_comparable(answer(id_now()), None, context())


def test_facts_do_not_change_with_time_alone() -> None:
    """The facts of a finding contain no age. An age would change in each round, and each change of facts is written to
    the store."""
    ids = [
        id_now(age_ms=5 * M, timeout_ms=10 * M),
        id_now("late", age_ms=8 * M),
        id_now("decided", states.PREPARE_COMMIT),
    ]
    decided = [transactional_id._replace(state_since_ms=NOW_MS - 5 * M) for transactional_id in ids[2:]]
    for rule, some in (
        (long_running, ids[:1]),
        (overdue, ids[1:2]),
        (lambda found, known: open_too_long.stuck(found, {}, known), decided),
        (ids_running_out.expiring, ids[:1]),
        (ids_running_out.epoch_exhaustion, ids[:1]),
    ):
        now, later = (rule(some, context(until_ms=NOW_MS + late_ms)) for late_ms in (0, 30 * S))
        assert now
        assert now == later
