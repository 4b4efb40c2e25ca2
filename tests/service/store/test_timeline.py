"""Tests that the timeline of an id has each item once for every page size, and is read through an index.

Also tests the time that markers took.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Engine

from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.facts import Gap, Step
from service.domain.transaction_log.journal import Transition
from service.domain.transaction_log.outcomes import MARKER, bucket
from service.domain.transaction_log.timeline import Commits, Folded, Row, TimelineCursor, timeline_items
from service.domain.transaction_log.transitions import REPEATED
from service.store import schema
from service.store.queries.history import read_owners, read_timeline
from service.store.schema import transactional_ids
from service.store.writers.transaction_log import TransactionLogWriter
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.histories import aborted, committed, minutes_ago
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read, row, rows
from tests.service.store.query_plans import plans


def apply(cluster: Cluster, entries: Sequence[Entry], lo: int = 0) -> None:
    cluster.writer.apply(batch(entries, read(lo, lo + len(entries))), NOW_MS)


def walk(engine: Engine, cluster_id: int, limit: int = 200, key: bytes = b"pay") -> list[Transition | Folded]:
    items: list[Transition | Folded] = []
    mark: TimelineCursor | None = TimelineCursor()
    with engine.connect() as connection:
        while mark is not None:
            page = read_timeline(connection, cluster_id, key, mark, limit)
            assert len(page.items) == limit or page.after is None, "only the last page may be short"
            items += [one.transition if isinstance(one, Row) else one for one in page.items]
            mark = page.after
    return items


def shown(items: Sequence[Transition | Folded]) -> list[Any]:
    """Returns, in the order of the timeline, the offset of each transition, and a text with the number of commits for
    each folded item."""
    return [f"{item.commits} commits" if isinstance(item, Folded) else item.offset for item in items]


def test_commits_are_folded_between_transitions(cluster: Cluster) -> None:
    cluster.start({0: 0})
    log: list[Entry] = []
    for minute in (9, 8, 8, 5):
        log += committed(len(log), minutes_ago(minute))
    abort = len(log)
    log += aborted(abort, minutes_ago(4))
    for minute in (3, 3, 3):
        log += committed(len(log), minutes_ago(minute) + 1_000 * len(log))
    apply(cluster, log)
    items = walk(cluster.engine, cluster.id)
    assert shown(items) == ["3 commits", abort + 2, abort + 1, "4 commits"]
    assert items[3] == Folded(4, minutes_ago(9), minutes_ago(5))
    complete, prepare = items[1], items[2]
    assert isinstance(complete, Transition)
    assert isinstance(prepare, Transition)
    assert (prepare.cause, prepare.confidence, prepare.duration_ms) == ("client_abort", "likely", 100)
    assert (complete.cause, complete.marker_ms, complete.at_ms) == (None, 10, minutes_ago(4))


def test_the_commits_of_a_minute_have_the_time_of_the_last_one(cluster: Cluster) -> None:
    at_ms = minutes_ago(2)
    apply(cluster, [*committed(0, at_ms + 1_000), *aborted(3, at_ms + 2_000), *committed(6, at_ms + 3_000)])
    assert shown(walk(cluster.engine, cluster.id)) == ["2 commits", 5, 4]


def test_a_commit_with_a_row_of_its_own_is_not_counted_again(cluster: Cluster) -> None:
    log = [*committed(0, minutes_ago(2) + 1_000), *committed(3, minutes_ago(2) + 30_000, markers_ms=5_000)]
    apply(cluster, [*log, *committed(6, minutes_ago(2) + 40_000), *committed(9, minutes_ago(1), markers_ms=2_000)])
    assert shown(walk(cluster.engine, cluster.id)) == [11, 10, "2 commits", 5, 4]


@pytest.mark.parametrize("cut", range(4))
def test_a_commit_with_slow_markers_shows_its_decision_and_cause_too(cluster: Cluster, cut: int) -> None:
    """PrepareCommit may be read in an earlier batch, before its markers are known to be slow."""
    cluster.start({0: 0})
    log = committed(0, minutes_ago(2), markers_ms=5_000)
    for lo, hi in ((0, cut), (cut, 3)):
        cluster.writer.apply(batch(log[lo:hi], read(lo, hi)), NOW_MS)
    complete, prepare = walk(cluster.engine, cluster.id)
    assert isinstance(complete, Transition)
    assert isinstance(prepare, Transition)
    assert (complete.offset, complete.from_state, complete.marker_ms) == (2, states.PREPARE_COMMIT, 5_000)
    assert (prepare.offset, prepare.from_state, prepare.to_state) == (1, states.ONGOING, states.PREPARE_COMMIT)
    assert (prepare.cause, prepare.confidence, prepare.duration_ms) == ("commit", "likely", 100)
    assert prepare.at_ms == minutes_ago(2) - 5_000


@pytest.mark.parametrize("is_back", [False, True])
def test_a_fence_by_an_administrator_is_shown_unless_the_id_returns(cluster: Cluster, is_back: bool) -> None:
    """If the application returns, the abort counts as fenced, because Kafka Connect fences its own ids through the
    admin API, too."""
    cluster.start({0: 0})
    at_ms = NOW_MS - 60_000
    path = (states.ONGOING, states.PREPARE_ABORT, states.COMPLETE_ABORT, states.EMPTY)
    log = [
        entry(i, state, epoch=min(i, 1) + (i == 3), start_ms=at_ms, at_ms=at_ms + 100 * i)
        for i, state in enumerate(path)
    ]
    log[3] = log[3]._replace(record=log[3].record._replace(timeout_ms=30_000))
    cluster.writer.apply(batch(log, read(0, 4, asked_at_ms=at_ms + 400)), NOW_MS)
    assert abort_of(cluster) == ("admin", "ambiguous", 0, 0)
    again = [entry(4, states.EMPTY, epoch=3, at_ms=at_ms + 700)] if is_back else []
    cluster.writer.apply(batch(again, read(4, 4 + len(again), asked_at_ms=NOW_MS)), NOW_MS)
    assert abort_of(cluster) == (("fenced", "ambiguous", 1, 0) if is_back else ("admin", "likely", 0, 1))


def abort_of(cluster: Cluster) -> tuple[str | None, str | None, int, int]:
    """Returns the cause and the confidence of the abort, and the id's counts of fenced aborts and of aborts by an
    administrator.

    Asserts that the row of the id and the row of the abort have the same cause and confidence.
    """
    (prepare,) = [
        row
        for row in walk(cluster.engine, cluster.id)
        if isinstance(row, Transition) and row.to_state == states.PREPARE_ABORT
    ]
    with cluster.engine.connect() as connection:
        one = connection.execute(transactional_ids.select()).one()
    assert (one.abort_cause, one.abort_confidence) == (prepare.cause, prepare.confidence)
    return prepare.cause, prepare.confidence, one.aborts_fenced, one.aborts_admin


def test_a_repeated_decision_keeps_the_first_one_in_the_history(cluster: Cluster) -> None:
    cluster.start({0: 0})
    log = committed(0, minutes_ago(2), markers_ms=5_000)
    again = entry(2, states.PREPARE_COMMIT, start_ms=log[1].record.start_ms, at_ms=minutes_ago(2) - 2_000)
    complete = log[2]._replace(record=log[2].record._replace(offset=3))
    apply(cluster, [*log[:2], again, complete])
    reported = [
        (row.offset, row.cause, row.note) for row in walk(cluster.engine, cluster.id) if isinstance(row, Transition)
    ]
    assert reported == [(3, None, None), (2, None, REPEATED), (1, "commit", None)]


def test_commits_of_an_id_with_full_history_are_not_folded(cluster: Cluster) -> None:
    cluster.start({0: 0})
    writer = TransactionLogWriter(cluster.engine, cluster.lease, full_history_prefixes=(b"pay",))
    log: list[Entry] = []
    for minute in (3, 3, 2, 1):
        log += committed(len(log), minutes_ago(minute) + 1_000 * len(log))
        log += aborted(len(log), minutes_ago(minute) + 1_000 * len(log))
    every_step = tuple(Step(0, b"pay", before.record, after.record) for before, after in pairwise(log))
    writer.apply(batch(log, read(0, len(log)))._replace(steps=every_step), NOW_MS)
    assert shown(walk(cluster.engine, cluster.id)) == list(reversed(range(1, len(log))))


@pytest.mark.parametrize("seed", range(5))
def test_every_page_size_gives_the_same_rows_and_each_commit_once(cluster: Cluster, seed: int) -> None:
    rng = random.Random(seed)
    cluster.start({0: 0})
    log: list[Entry] = []
    at_ms, commits = minutes_ago(120), 0
    for _ in range(80):
        at_ms += rng.choice((200, 5_000, 30_000, 90_000))
        kind = rng.choice(("commit", "commit", "commit", "slow", "abort"))
        commits += kind != "abort"
        if kind == "abort":
            log += aborted(len(log), at_ms)
        else:
            log += committed(len(log), at_ms, markers_ms=1_500 if kind == "slow" else 10)
    log += committed(len(log), at_ms + 10, b"somebody else")
    apply(cluster, log)
    items = walk(cluster.engine, cluster.id)
    for limit in (1, 2, 7):
        assert walk(cluster.engine, cluster.id, limit) == items
    rows = [item for item in items if isinstance(item, Transition)]
    assert [row.offset for row in rows] == sorted((row.offset for row in rows), reverse=True)
    own = sum(row.to_state == states.COMPLETE_COMMIT for row in rows)
    assert own == sum(row.cause == "commit" for row in rows)
    assert own + sum(item.commits for item in items if isinstance(item, Folded)) == commits
    assert not [pair for pair in pairwise(items) if all(isinstance(one, Folded) for one in pair)]


def test_a_log_that_is_read_again_adds_no_row_twice(cluster: Cluster) -> None:
    """Compaction may have removed records since the first read, so the rows of the first read are kept."""
    cluster.start({0: 0})
    log = [*committed(0, minutes_ago(9)), *aborted(3, minutes_ago(8))]
    apply(cluster, log)
    before = walk(cluster.engine, cluster.id)
    again = read(0, 6, generation=1, gap=Gap(6, 6, "away"), counts=False)
    cluster.writer.apply(batch(log[4:], again), NOW_MS)
    assert walk(cluster.engine, cluster.id) == before
    later = aborted(6, minutes_ago(1))
    cluster.writer.apply(batch(later, read(6, 9, generation=1)), NOW_MS)
    assert walk(cluster.engine, cluster.id, 2)[2:] == before


def test_a_clock_that_steps_back_does_not_change_the_order_of_rows() -> None:
    def row(offset: int, at_ms: int) -> Row:
        cause = (CauseCode.TIMEOUT, Confidence.LIKELY)
        return Row(0, offset, True, Transition(offset, at_ms, 1, 3, 7, 0, 60_000, 1, None, *cause, None))

    rows = [row(9, 5_000_000), row(8, 9_000_000), row(7, -5), row(6, 7_000_000)]
    minutes = [Commits(8_400_000, 5, 8_400_001, 8_400_002), Commits(0, 2, 1, 2)]
    items = [item for item, _ in timeline_items(rows, minutes, TimelineCursor())]
    assert [item.transition.offset for item in items if isinstance(item, Row)] == [9, 8, 7, 6]
    assert sum(item.commits for item in items if isinstance(item, Folded)) == 7


def test_a_timeline_has_nothing_of_another_cluster(cluster: Cluster, new_cluster: Any) -> None:
    other = new_cluster()
    for one in (cluster, other):
        one.start({0: 0})
    apply(other, [*committed(0, minutes_ago(2)), *aborted(3, minutes_ago(1))])
    assert walk(cluster.engine, cluster.id) == []


def test_a_producer_id_has_dated_owners(cluster: Cluster) -> None:
    cluster.start({0: 0})
    log = [*committed(0, minutes_ago(9), pid=7, epoch=2), *committed(3, minutes_ago(8), pid=7, epoch=5)]
    log += [*committed(6, minutes_ago(5), pid=8), entry(9, states.EMPTY, b"gone", pid=9, at_ms=minutes_ago(4))]
    log.append(entry(10, states.EXPIRED, b"gone", at_ms=minutes_ago(3)))
    apply(cluster, log)
    with cluster.engine.connect() as connection:
        (rotated,) = read_owners(connection, cluster.id, 7)
        (current,) = read_owners(connection, cluster.id, 8)
        (expired,) = read_owners(connection, cluster.id, 9)
        assert read_owners(connection, cluster.id, 10) == []
    assert rotated == (b"pay", minutes_ago(9) - 110, minutes_ago(8), 2, 5, False)
    assert (current.transactional_id, current.current) == (b"pay", True)
    assert (expired.transactional_id, expired.current) == (b"gone", False)


@only_on("sqlite")
def test_the_timeline_uses_an_index_and_sorts_nothing(cluster: Cluster) -> None:
    for begin in (TimelineCursor(), TimelineCursor((1, 5, 9), NOW_MS)):
        steps = plans(cluster.engine, lambda connection: read_timeline(connection, cluster.id, b"pay", begin, 9))  # noqa: B023
        assert all(step.startswith(("SEARCH", "CORRELATED")) for step in steps), steps
        assert sum("transactional_id=?" in step for step in steps) >= 2, steps


AT_MS = NOW_MS - 60_000
FIRST_MS, AGAIN_MS, COMPLETE_MS = AT_MS + 1_000, AT_MS + 9_100, AT_MS + 10_426
TOOK_MS = COMPLETE_MS - FIRST_MS
OUTCOMES = {
    "abort": (states.PREPARE_ABORT, states.COMPLETE_ABORT),
    "commit": (states.PREPARE_COMMIT, states.COMPLETE_COMMIT),
}


def appended(*steps: tuple[int, int], key: bytes = b"pay", start_ms: int = AT_MS) -> list[Entry]:
    """Returns the records of one transaction from pairs of (state, append time)."""
    return [entry(offset, state, key, start_ms=start_ms, at_ms=at_ms) for offset, (state, at_ms) in enumerate(steps)]


def twice(outcome: str) -> list[Entry]:
    """Returns the records of one transaction: Ongoing, PrepareX, PrepareX appended again by a second coordinator, and
    CompleteX."""
    prepared, complete = OUTCOMES[outcome]
    return appended((states.ONGOING, AT_MS), (prepared, FIRST_MS), (prepared, AGAIN_MS), (complete, COMPLETE_MS))


def apply_in_pieces(cluster: Cluster, log: list[Entry], cuts: Iterable[int] = ()) -> None:
    """Applies the log in batches, which end at the offsets in `cuts` and at the end of the log."""
    cluster.start({0: 0})
    for lo, hi in pairwise(sorted({0, *cuts, len(log)})):
        cluster.writer.apply(batch(log[lo:hi], read(lo, hi, end=len(log))), NOW_MS)


def marker_times(cluster: Cluster) -> list[int | None]:
    """Returns the marker times (ms) of the rows that complete a transaction, in the order of their offsets. A row
    without a marker time counts as None."""
    found = rows(cluster.engine, schema.transitions, cluster.id)
    return [one["marker_ms"] for one in sorted(found, key=_offset) if one["to_state"] in (4, 5)]


def _offset(found: dict[str, Any]) -> int:
    return int(found["offset"])


def histogram(cluster: Cluster, outcome: str) -> dict[str, int]:
    found = rows(cluster.engine, schema.counters, cluster.id)
    return {one["label"]: one["value"] for one in found if one["name"] == f"marker_ms_{outcome}"}


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (3,), (1, 2), (2, 3), (1, 3), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_marker_time_counts_from_the_first_of_two_prepares(
    cluster: Cluster, outcome: str, cuts: tuple[int, ...]
) -> None:
    apply_in_pieces(cluster, twice(outcome), cuts)
    assert marker_times(cluster) == [TOOK_MS]
    (minute,) = (row for row in rows(cluster.engine, schema.id_minutes, cluster.id) if row["marked"])
    assert (minute["marked"], minute["marker_sum_ms"], minute["marker_max_ms"]) == (1, TOOK_MS, TOOK_MS)
    assert histogram(cluster, outcome) == {"sum": TOOK_MS, str(bucket(MARKER, TOOK_MS)): 1}


@pytest.mark.parametrize("cuts", [(), (2,)], ids=str)
def test_an_id_is_in_prepare_state_since_the_first_prepare(cluster: Cluster, cuts: tuple[int, ...]) -> None:
    apply_in_pieces(cluster, twice("abort")[:3], cuts)
    found = row(cluster.engine, cluster.id)
    assert (found["state_since_ms"], found["timestamp_ms"]) == (FIRST_MS, AGAIN_MS)


@pytest.mark.parametrize("cuts", [(), (2,), (3,), (2, 3)], ids=str)
def test_quick_markers_of_a_commit_that_was_decided_long_before_get_a_row(
    cluster: Cluster, cuts: tuple[int, ...]
) -> None:
    log = twice("commit")
    log[-1] = entry(3, states.COMPLETE_COMMIT, start_ms=AT_MS, at_ms=AGAIN_MS + 5)
    apply_in_pieces(cluster, log, cuts)
    assert marker_times(cluster) == [AGAIN_MS + 5 - FIRST_MS]


@pytest.mark.parametrize("cuts", [(), (2,), (3,), (4,), (2, 3, 4)], ids=str)
def test_the_first_prepare_counts_even_if_a_later_one_raised_the_epoch(cluster: Cluster, cuts: tuple[int, ...]) -> None:
    """The client's abort seemed to fail, and the coordinator aborted again at the timeout. One transaction then has
    PrepareAborts with two epochs."""
    log = appended(
        (states.ONGOING, AT_MS),
        (states.PREPARE_ABORT, FIRST_MS),
        (states.PREPARE_ABORT, FIRST_MS + 50),
        (states.PREPARE_ABORT, AGAIN_MS),
        (states.COMPLETE_ABORT, COMPLETE_MS),
    )
    log[3:] = [entry._replace(record=entry.record._replace(producer_epoch=1)) for entry in log[3:]]
    apply_in_pieces(cluster, log, cuts)
    assert marker_times(cluster) == [TOOK_MS]


@pytest.mark.parametrize("cuts", [(), (2,), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("between", [states.ONGOING, states.PREPARE_COMMIT], ids=["taken back", "another outcome"])
def test_a_prepare_that_the_coordinator_did_not_keep_does_not_count(
    cluster: Cluster, between: int, cuts: tuple[int, ...]
) -> None:
    """The coordinator believes that its first append failed. The coordinator then adds partitions to the transaction,
    or decides on the other outcome. So the first PrepareX does not count."""
    first = states.PREPARE_ABORT if between == states.ONGOING else between
    steps = [(states.ONGOING, AT_MS), (first, FIRST_MS)]
    if between == states.ONGOING:
        steps.append((between, FIRST_MS + 100))
    log = appended(*steps, (states.PREPARE_ABORT, AGAIN_MS), (states.COMPLETE_ABORT, COMPLETE_MS))
    apply_in_pieces(cluster, log, cuts)
    assert marker_times(cluster) == [COMPLETE_MS - AGAIN_MS]


def test_the_next_transaction_counts_from_its_own_prepare(cluster: Cluster) -> None:
    later = [
        entry(4, states.ONGOING, start_ms=COMPLETE_MS + 1, at_ms=COMPLETE_MS + 1),
        entry(5, states.PREPARE_ABORT, start_ms=COMPLETE_MS + 1, at_ms=COMPLETE_MS + 2),
        entry(6, states.COMPLETE_ABORT, start_ms=COMPLETE_MS + 1, at_ms=COMPLETE_MS + 5),
    ]
    apply_in_pieces(cluster, [*twice("abort"), *later], [5])
    assert marker_times(cluster) == [TOOK_MS, 3]
