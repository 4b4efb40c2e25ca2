"""Tests that folding the records of an id gives the same result, however the log is divided into reads."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_RECORD, LogBatch, LogRecord, Records, Step
from service.domain.transaction_log.id_delta import IdMinute, judge_records
from service.domain.transaction_log.journal import NO_ABORT
from service.domain.transaction_log.outcomes import bucket
from service.store.rows.ids import IdRow, id_rows, new_row
from spark_jobs.fold.rows import batches_from_rows, folded_to_rows, reads_to_rows
from spark_jobs.fold.transaction_log import Folded, Runs, concat, merge
from spark_jobs.fold.transitions import Scope
from tests.service.store import logs as by_hand

Entry = tuple[int, bytes, LogRecord]  # partition, transactional id, record
COUNTED = Scope(frozenset({0, 1}))
FOLLOW = {
    states.ONGOING: [states.PREPARE_COMMIT, states.PREPARE_COMMIT, states.PREPARE_ABORT],
    states.PREPARE_COMMIT: [states.COMPLETE_COMMIT],
    states.PREPARE_ABORT: [states.COMPLETE_ABORT],
}
"""A mapping from a state to the next states that `logs` draws within a transaction. The same state may also be drawn
again. A state that occurs twice in the list is drawn twice as often."""


def singles(log: list[Entry]) -> Folded:
    """Returns the log in columns, with every record as a run of its own."""
    partitions, ids, records = zip(*log, strict=True)
    columns = Records(*(np.array(column, np.int64) for column in zip(*records, strict=True)))
    ends = [r.state in by_hand.PREPARED and r.partition_count > 0 for r in records]
    raw = [b"raw %d" % r.offset if end else None for r, end in zip(records, ends, strict=True)]
    runs = Runs(
        partition=np.array(partitions, np.int32),
        transactional_id=pa.array(ids, pa.binary()),
        first=columns,
        last=columns,
        joined=np.zeros(len(log), np.bool_),
        records=np.ones(len(log), np.int64),
        value=pa.nulls(len(log), pa.binary()),
        ended_offset=np.where(ends, columns.offset, -1),
        ended_state=np.where(ends, columns.state, -1),
        ended_value=pa.array(raw, pa.binary()),
    )
    return Folded(runs, ())


def facts(folded: Folded) -> LogBatch:
    """Returns the batch that the driver decodes from the rows."""
    (batch,) = batches_from_rows(pa.Table.from_batches(list(folded_to_rows(folded))))
    return batch


def reported(batch: LogBatch) -> tuple[Any, ...]:
    """Returns the contents of a batch in a form that does not depend on how the log was divided into pieces."""
    cells: dict[Any, IdMinute] = {}
    for minute in batch.minutes:
        place = (minute.partition, minute.transactional_id, minute.minute_ms)
        cells[place] = cells.get(place, IdMinute(minute.minute_ms)).plus(minute.sums)
    durations: Counter[tuple[int, str, int]] = Counter()
    for duration in batch.durations:
        durations.update({(duration.partition, duration.kind, index): n for index, n in enumerate(duration.buckets)})
        durations[duration.partition, duration.kind, -1] += duration.sum_ms
    runs = sorted(batch.runs, key=lambda run: (run.partition, run.transactional_id, run.first.offset))
    return runs, sorted(batch.steps), cells, +durations


def kept(batch: LogBatch) -> tuple[Any, ...]:
    """Returns the rows, histories and histograms that the store keeps of a batch. They do not depend on which runs the
    executors have judged already."""
    durations = Counter[tuple[str, int]]()
    for duration in batch.durations:
        durations.update({(duration.kind, index): n for index, n in enumerate(duration.buckets)})
        durations[duration.kind, -1] += duration.sum_ms
    stories = {}
    runs = sorted(batch.runs, key=lambda run: (run.partition, run.transactional_id, run.first.offset))
    for place, of_id in groupby(runs, lambda run: (run.partition, run.transactional_id)):
        own = list(of_id)
        steps = [step for step in batch.steps if (step.partition, step.transactional_id) == place]
        minutes = [minute for minute in batch.minutes if (minute.partition, minute.transactional_id) == place]
        story = judge_records(NO_RECORD, NO_ABORT, own, steps, minutes, counts=True, full_history=False)
        for outcome, kind, ms in story.durations:
            if outcome == "commit":
                durations.update({(kind, bucket(kind, ms)): 1, (kind, -1): ms})
        stories[place] = (new_row(1, None, 0, own, story), story.transitions, story.minutes, story.commits)
    return stories, +durations


def said(log: list[Entry], counts: bool = True) -> tuple[Any, ...]:
    """Returns the expected contents of the batch, computed from the records of each id one by one."""
    parts = []
    for p in (0, 1):
        entries = [by_hand.Entry(key, record, ()) for partition, key, record in log if partition == p]
        parts.append(by_hand.batch(entries, by_hand.read(0, 0, partition=p, counts=counts)))
    whole = by_hand.batch([], by_hand.read(0, 0, partition=2), *parts)
    return reported(whole)


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """Draws up to 40 records of a few ids. As on a real log, any state may follow any other."""
    log: list[Entry] = []
    newest: dict[tuple[int, bytes], LogRecord] = {}
    at_ms = 0
    for offset in range(draw(st.integers(1, 40))):
        at_ms += draw(st.sampled_from([0, 3, 900, 61_000, -5]))
        key = draw(st.integers(0, 1)), draw(st.sampled_from([b"a", b"b", b"\xff\x00"]))
        before = newest.get(key)
        if before is not None and draw(st.integers(0, 2)):  # the next record belongs to the same transaction
            state = draw(st.sampled_from([before.state, *FOLLOW.get(before.state, [states.ONGOING])]))
            newest[key] = before._replace(offset=offset, timestamp_ms=at_ms, state=state)
            log.append((*key, newest[key]))
            continue
        newest[key] = NO_RECORD._replace(
            offset=offset,
            timestamp_ms=draw(st.sampled_from([at_ms] * 5 + [-(2**63), 2**63 - 1])),
            state=draw(st.sampled_from([*states.PERSISTED, *states.PERSISTED, states.EXPIRED, states.UNKNOWN])),
            producer_id=draw(st.integers(-1, 1)),
            producer_epoch=draw(st.sampled_from([0, 0, 0, 1, 32767])),
            start_ms=draw(st.sampled_from([-1, 0, 1, 2, 2**63 - 2])),
            last_update_ms=draw(st.integers(0, 1)),
            previous_producer_id=draw(st.sampled_from([-1, -1, 0])),
            partition_count=draw(st.integers(0, 2)),
        )
        log.append((*key, newest[key]))
    return log


@given(logs())
def test_folding_columns_equals_folding_record_by_record(log: list[Entry]) -> None:
    assert reported(facts(merge(singles(log), COUNTED))) == said(log)


@given(logs(), st.data())
def test_the_result_does_not_depend_on_how_a_log_is_split(log: list[Entry], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(log)), max_size=4)) | {0, len(log)})
    pieces = [merge(singles(log[a:b]), COUNTED) for a, b in pairwise(cuts)]
    assert kept(facts(merge(concat(pieces), COUNTED))) == kept(facts(merge(singles(log), COUNTED)))


@given(logs())
def test_history_has_steps_and_counts_nothing(log: list[Entry]) -> None:
    assert reported(facts(merge(singles(log), Scope(frozenset())))) == said(log, counts=False)


@given(logs())
def test_lone_runs_are_those_of_ids_with_one_run_and_no_steps(log: list[Entry]) -> None:
    folded = merge(singles(log), Scope(frozenset()))
    partitions = {partition for partition, _, _ in log}
    reads = [by_hand.read(0, 0, partition=partition, counts=False) for partition in sorted(partitions)]
    rows = [*folded_to_rows(folded), reads_to_rows(reads)]
    (batch,) = batches_from_rows(pa.Table.from_batches(rows))
    all_runs = facts(folded).runs
    assert batch.lone is not None
    alone = batch.lone.runs()
    assert sorted((*batch.runs, *alone)) == sorted(all_runs)
    assert [run.transactional_id for run in alone] == sorted(run.transactional_id for run in alone)
    runs_of = Counter(run.transactional_id for run in all_runs)
    with_steps = {step.transactional_id for step in batch.steps}
    assert {run.transactional_id for run in alone} == {
        one for one, number in runs_of.items() if number == 1 and one not in with_steps
    }
    for run, row in zip(alone, id_rows(1, 3, batch.lone), strict=True):
        delta = judge_records(NO_RECORD, NO_ABORT, [run], (), (), counts=False, full_history=False)
        assert IdRow.of(row) == new_row(1, None, 3, [run], delta)
        assert (delta.transitions, delta.revised, delta.minutes, delta.durations) == ([], [], {}, [])
        assert (delta.commits, delta.ended_aborts, delta.aborts, delta.expired) == (0, 0, {}, 0)


def a_commit(key: bytes) -> list[Entry]:
    path = (states.ONGOING, states.PREPARE_COMMIT, states.COMPLETE_COMMIT)
    fields = {"producer_id": 1, "start_ms": 5, "partition_count": 1, "timestamp_ms": 6}
    return [(0, key, NO_RECORD._replace(offset=i, state=state, **fields)) for i, state in enumerate(path)]


def test_every_step_of_chosen_ids_is_kept() -> None:
    log = [*a_commit(b"orders-1"), *a_commit(b"billing-1")]
    batch = facts(merge(singles(log), Scope(frozenset({0}), history_prefixes=(b"orders-",))))
    assert batch.steps == tuple(Step(0, b"orders-1", a[2], b[2]) for a, b in pairwise(log[:3]))


def test_a_new_producer_id_begins_a_new_run_that_knows_its_predecessor() -> None:
    """When epochs are exhausted under TV2, the CompleteX record contains the next producer id."""
    prepared = NO_RECORD._replace(state=states.PREPARE_COMMIT, producer_id=1, start_ms=5, partition_count=1)
    done = NO_RECORD._replace(offset=1, state=states.COMPLETE_COMMIT, producer_id=2, start_ms=5)
    batch = facts(merge(singles([(0, b"id", prepared), (0, b"id", done)]), COUNTED))
    old, new = batch.runs
    assert (old.last.producer_id, old.joined, new.joined) == (1, False, True)
    assert (old.ended_value, new.ended_value) == (b"raw -1", None)
    assert sum(minute.sums.commits for minute in batch.minutes) == 1


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (3,), (1, 2), (2, 3)], ids=str)
def test_the_marker_time_counts_from_the_first_prepare_of_any_piece(cuts: tuple[int, ...]) -> None:
    """The next coordinator appended PrepareCommit again. The duration of markers still counts from the first
    PrepareCommit, whichever read contains it."""
    path = (
        (states.ONGOING, 0),
        (states.PREPARE_COMMIT, 1_000),
        (states.PREPARE_COMMIT, 9_100),
        (states.COMPLETE_COMMIT, 9_200),
    )
    fields = {"producer_id": 1, "start_ms": 0, "partition_count": 1}
    log = [
        (0, b"a", NO_RECORD._replace(offset=i, state=s, timestamp_ms=ms, **fields)) for i, (s, ms) in enumerate(path)
    ]
    pieces = [merge(singles(log[a:b]), COUNTED) for a, b in pairwise((0, *cuts, len(log)))]
    stories, durations = kept(facts(merge(concat(pieces), COUNTED)))
    ((_, rows, cells, commits),) = stories.values()
    assert [(row.offset, row.marker_ms) for row in rows] == [(1, None), (2, None), (3, 8_200)]
    assert (commits, cells[0].sums.marked, cells[0].sums.marker_sum_ms, durations["marker", -1]) == (1, 1, 8_200, 8_200)
