"""Tests of fencing conflicts. In a conflict, two live producers fence each other in turns. Restarts and rebalances are
no conflicts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from zlib import crc32

import pytest

from service.domain.findings import fencing
from service.domain.findings.events import Event, ReportWindow
from service.domain.findings.fencing import ALIVE_MS, ROUND_MS, TAKEOVERS
from service.domain.findings.kinds import QUIET_MS, Kind, Severity
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.store.queries.id_events import REPORTED_CAUSES
from tests.service.domain.findings.builders import M, S, context
from tests.service.domain.records import reported


def events_of(log: str, name: str = "pay-1", at_ms: int = 0) -> list[Event]:
    """Returns the events that the judge reads from `log`, the log of one id. `at_ms` is added to all times of the
    log."""
    rows = reported(log).rows
    return [
        Event(
            100 * (at_ms + row.at_ms) + crc32(name.encode()) % 100,
            name.encode(),
            name,
            0,
            row.offset,
            at_ms + row.at_ms,
            row.from_state,
            row.producer_id,
            row.producer_epoch,
            row.timeout_ms,
            row.duration_ms,
            row.cause,
            row.confidence,
        )
        for row in rows
        if row.cause in REPORTED_CAUSES and row.confidence is not None
    ]


def taken_in_turns(
    times: int, *, every_ms: int = 5 * S, open_ms: int = 400, timeouts: tuple[int, ...] = (60_000,), tag: str = ""
) -> str:
    """Returns the log of an id under which one producer after another starts. Each producer commits one transaction,
    and is fenced in its next transaction."""
    lines = [f"0 Empty(7,0) timeout={timeouts[0]} {tag}"]
    epoch, raised = 0, int("ctv=2" in tag)
    for number in range(1, times + 1):
        at_ms = number * every_ms
        lines += [
            f"{at_ms - open_ms - 60} Ongoing(7,{epoch}) {tag}",
            f"{at_ms - open_ms - 40} PrepareCommit(7,{epoch + raised}) {tag}",
            f"{at_ms - open_ms - 38} CompleteCommit(7,{epoch + raised}) {tag}",
        ]
        epoch += raised
        lines += [
            f"{at_ms - open_ms} Ongoing(7,{epoch}) {tag}",
            f"{at_ms} PrepareAbort(7,{epoch + 1}) {tag}",
            f"{at_ms + 3} CompleteAbort(7,{epoch + 1}) {tag}",
            f"{at_ms + 90} Empty(7,{epoch + 2}) timeout={timeouts[number % len(timeouts)]} {tag}",
        ]
        epoch += 2
    return "\n".join(lines)


def conflicts(*logs: Iterable[Event]) -> int:
    """Returns the number of takeovers that the findings about these logs count. A takeover is a fence that lets another
    producer in."""
    takeovers = fencing.takeover_conflicts(e for log in logs for e in log)
    found = fencing.fencing_conflicts(takeovers, context(), ReportWindow())
    assert all((observation.kind, observation.severity, observation.confidence) == CONFLICT for observation in found)
    return sum(len(observation.occurrences) for observation in found)


CONFLICT = Kind.FENCING_CONFLICT, Severity.WARNING, Confidence.LIKELY


@pytest.mark.parametrize("tag", ["", "ctv=2"])
@pytest.mark.parametrize(("times", "counted"), [(TAKEOVERS - 1, 0), (TAKEOVERS, TAKEOVERS), (7, 7)])
def test_two_live_producers_that_take_turns_at_an_id_are_a_conflict(tag: str, times: int, counted: int) -> None:
    assert conflicts(events_of(taken_in_turns(times, tag=tag))) > 0 or counted == 0
    assert len(fencing.takeover_conflicts(events_of(taken_in_turns(times, tag=tag)))) == max(times - TAKEOVERS + 1, 0)


def test_two_alternating_configurations_are_two_parties_at_any_pace() -> None:
    for timeouts, is_conflict in (((60_000, 45_000), True), ((60_000,), False)):
        log = taken_in_turns(5, every_ms=60 * S, open_ms=30 * S, timeouts=timeouts)
        assert (conflicts(events_of(log)) > 0) == is_conflict


def test_a_takeover_of_an_older_transaction_hides_no_conflict() -> None:
    """Some producers are fenced late, when their transaction has been open for up to 3.5 s. The takeovers before and
    after still count as a conflict."""
    log, rest, epoch, at_ms = ["0 Empty(7,0)"], (300, 3_500, 1_900, 2_700, 100), 0, 0
    for open_ms in rest:
        at_ms += 6_000
        log += [
            f"{at_ms - open_ms} Ongoing(7,{epoch})",
            f"{at_ms} PrepareAbort(7,{epoch + 1})",
            f"{at_ms + 3} CompleteAbort(7,{epoch + 1})",
            f"{at_ms + 90} Empty(7,{epoch + 2})",
        ]
        epoch += 2
    assert conflicts(events_of("\n".join(log))) == 3
    restarted = [*log[:9], f"{12_500} Empty(7,5)", *(line.replace("(7,", "(8,") for line in log[9:])]
    assert conflicts(events_of("\n".join(restarted))) == 0


def test_a_crash_loop_of_one_instance_is_no_conflict() -> None:
    """A crashed instance returns only after a while. Until then, its transaction stays open."""
    assert conflicts(events_of(taken_in_turns(20, every_ms=20 * S, open_ms=ALIVE_MS))) == 0


def test_one_change_of_the_timeout_is_no_conflict() -> None:
    log = taken_in_turns(6, every_ms=60 * S, open_ms=20 * S, timeouts=(60_000,) * 3 + (90_000,) * 9)
    assert conflicts(events_of(log)) == 0


def test_takeovers_that_are_far_apart_are_no_conflict() -> None:
    assert conflicts(events_of(taken_in_turns(5, every_ms=QUIET_MS // 2 + M))) == 0


def test_an_idle_pool_is_no_conflict() -> None:
    """A Flink subtask whose checkpoints are empty does nothing but initialize its id again and again."""
    assert conflicts(events_of("\n".join(f"{3_000 * n} Empty(9,{n})" for n in range(30)))) == 0


@pytest.mark.parametrize("ctv", ["", "ctv=2"])
def test_a_producer_that_fences_itself_is_no_conflict(ctv: str) -> None:
    """The producer aborts its own transaction with InitProducerId (KIP-360). Under TV2 the producer goes on at once.
    Under the old protocol the producer is refused, and the application creates a new producer later."""
    lines, epoch = [f"0 Empty(7,0) {ctv}"], 0
    for n in range(1, 8):
        at_ms, empty = 20_000 * n, (300, epoch + 1) if ctv else (8_000, epoch + 2)
        lines += [
            f"{at_ms} Ongoing(7,{epoch}) {ctv}",
            f"{at_ms + 500} PrepareAbort(7,{epoch + 1}) {ctv}",
            f"{at_ms + 503} CompleteAbort(7,{epoch + 1}) {ctv}",
            f"{at_ms + 503 + empty[0]} Empty(7,{empty[1]}) {ctv}",
        ]
        epoch = empty[1]
    assert conflicts(events_of("\n".join(lines))) == 0


@pytest.mark.parametrize("fencer_ms", [30_000, 45_000, 60_000])
@pytest.mark.parametrize("ids", [1, 4])
def test_kafka_connect_that_fences_its_own_ids_is_no_conflict(fencer_ms: int, ids: int) -> None:
    lines, epoch = ["0 Empty(1,0) timeout=60000"], 0
    for n in range(1, 6):
        at_ms = 60_000 * n
        lines += [
            f"{at_ms} Ongoing(1,{epoch})",
            f"{at_ms + 500} PrepareAbort(1,{epoch + 1})",
            f"{at_ms + 503} CompleteAbort(1,{epoch + 1})",
            f"{at_ms + 620} Empty(1,{epoch + 2}) timeout={fencer_ms}",
            f"{at_ms + 900} Empty(1,{epoch + 3}) timeout=60000",
        ]
        epoch += 3
    log = "\n".join(lines)
    events = [events_of(log, f"connect-cluster-orders-{n}", 40 * n) for n in range(ids)]
    assert conflicts(*events) == 0
    assert CauseCode.ADMIN not in {e.cause for some in events for e in some}


def test_the_attempts_of_a_flink_job_are_no_conflict() -> None:
    lines, epoch = ["0 Empty(7,0)"], 0
    for n in range(1, 6):
        at_ms = 30_000 * n
        lines += [
            f"{at_ms} Ongoing(7,{epoch})",
            f"{at_ms + 1_500} PrepareAbort(7,{epoch + 1})",
            f"{at_ms + 1_503} CompleteAbort(7,{epoch + 1})",
            f"{at_ms + 1_600} Empty(7,{epoch + 2})",
            f"{at_ms + 1_800} Empty(7,{epoch + 3})",
        ]
        epoch += 3
    assert conflicts(events_of("\n".join(lines))) == 0


@pytest.mark.parametrize(("partitions", "every_ms"), [(1, 60 * S), (4, 60 * S), (4, 25 * S)])
def test_one_producer_per_input_partition_over_rebalances_is_no_conflict(partitions: int, every_ms: int) -> None:
    """In a rebalance, the ids of all moved partitions change their producers within seconds, but each id only once."""
    log = taken_in_turns(5, every_ms=every_ms)
    assert conflicts(*(events_of(log, f"tx.g.in.{n}", at_ms=2 * S * n) for n in range(partitions))) == 0


def test_the_ids_of_two_deployments_that_fight_are_a_conflict() -> None:
    """Two deployments conflict if each id changes its producer more than once within the time that a restart takes."""
    log = taken_in_turns(6, every_ms=ROUND_MS // 2)
    assert conflicts(*(events_of(log, f"pay-{n}", at_ms=300 * n) for n in range(2))) > 0


def test_a_job_that_starts_again_and_again_fences_nobody() -> None:
    lines = []
    for n in range(9):
        at_ms = 10_000 * n
        lines += [
            f"{at_ms} Empty(7,{n})",
            f"{at_ms + 50} Ongoing(7,{n})",
            f"{at_ms + 90} PrepareCommit(7,{n})",
            f"{at_ms + 93} CompleteCommit(7,{n})",
        ]
    assert conflicts(events_of("\n".join(lines))) == 0


def test_takeovers_are_counted_once_and_advice_keeps_ids_that_must_stay() -> None:
    events = events_of(taken_in_turns(7))
    takeovers = fencing.takeover_conflicts(events)
    counted = [e for shown in takeovers.values() for e in shown]
    assert len(counted) == len(set(counted)) == 7
    (found,) = fencing.fencing_conflicts(takeovers, context(), ReportWindow())
    assert "Ids that belong to an input partition or a task have to stay as they are" in found.advice
    assert all(later.at_ms >= earlier.at_ms for earlier, later in pairwise(found.evidence))
    assert {e.from_state for e in counted} == {states.ONGOING}
