"""Small transaction logs for tests: records of ids, folded as the executors fold them, and the resulting rows of the
store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Engine, Table, select

from service.domain.transaction_log import id_delta, states, transitions
from service.domain.transaction_log.facts import (
    NO_RECORD,
    Durations,
    Gap,
    LogBatch,
    LogRecord,
    LoneRuns,
    Minute,
    MinuteSums,
    Participants,
    RangeRead,
    Records,
    Reject,
    Run,
    Step,
)
from service.domain.transaction_log.outcomes import BOUNDS_MS, MARKER, OPEN, bucket
from service.store import schema
from tests.helpers.builders import transaction_log

NOW_MS = 1_790_000_000_123
PREPARED = (states.PREPARE_COMMIT, states.PREPARE_ABORT)
ORDERS = (Participants("orders", (0, 3)),)


class Entry(NamedTuple):
    """A record of one log partition, with its transactional.id and its open partitions."""

    transactional_id: bytes
    record: LogRecord
    participants: tuple[Participants, ...]


def entry(
    offset: int,
    state: int,
    transactional_id: bytes = b"pay",
    *,
    pid: int = 7,
    epoch: int = 0,
    start_ms: int = 1_000,
    at_ms: int | None = None,
    topics: tuple[Participants, ...] | None = None,
    version: int = 0,
) -> Entry:
    """Returns a record of an old client at `offset`. By default the record was appended and updated at 10,000 +
    `offset` (ms)."""
    timestamp_ms = 10_000 + offset if at_ms is None else at_ms
    if state >= states.EXPIRED:
        return Entry(transactional_id, NO_RECORD._replace(offset=offset, timestamp_ms=timestamp_ms, state=state), ())
    if topics is None:
        topics = ORDERS if state in states.OPEN else ()
    count = sum(len(topic.partitions) for topic in topics)
    start = -1 if state == states.EMPTY else start_ms
    record = LogRecord(offset, timestamp_ms, 0, state, pid, epoch, 60_000, timestamp_ms, start, version, -1, count)
    return Entry(transactional_id, record, topics)


def transaction(offset: int, transactional_id: bytes = b"pay", *, start_ms: int, pid: int = 7) -> list[Entry]:
    """Returns Ongoing, PrepareCommit and CompleteCommit of one transaction."""
    path = (states.ONGOING, states.PREPARE_COMMIT, states.COMPLETE_COMMIT)
    return [entry(offset + i, state, transactional_id, start_ms=start_ms, pid=pid) for i, state in enumerate(path)]


def fold(partition: int, entries: Iterable[Entry], counts: bool = True) -> LogBatch:
    """Returns the rows that executors make of records in log order. Each record of an id is folded with the previous
    record of the id."""
    by_id: dict[bytes, list[Entry]] = {}
    for one in entries:
        by_id.setdefault(one.transactional_id, []).append(one)
    runs, steps, folded = [], [], []
    durations: list[Durations] = []
    for key, of_id in sorted(by_id.items()):
        joined = False
        for _, group in groupby(of_id, lambda entry: entry.record.producer_id):
            records = list(group)
            last = records[-1]
            topics = last.participants if last.record.state in states.OPEN else ()
            ends = [r for r in records if r.record.state in PREPARED and r.record.partition_count]
            end = (ends[-1].record.offset, ends[-1].record.state, value_of(ends[-1])) if ends else (-1, -1, None)
            runs.append(Run(partition, key, records[0].record, last.record, joined, len(records), topics, *end))
            joined = True
        is_first_prepare = False  # unknown: the record before the first one is not in this batch
        for before, after in pairwise(entry.record for entry in of_id):
            is_step = not transitions.is_plain(before, after) or (is_completion(before, after) and not is_first_prepare)
            if is_step:
                steps.append(Step(partition, key, before, after))
            reported = id_delta.commit_sums(before, after) if counts else None
            if reported is not None:
                if is_step:
                    reported = reported._replace(marked=0, marker_sum_ms=0, marker_max_ms=0)
                folded.append(Minute(partition, key, id_delta.minute_of(after.timestamp_ms), reported))
                durations += _histograms(partition, reported)
            is_first_prepare = not transitions.is_prepared_again(before, after)
    return LogBatch((), tuple(runs), (), None, tuple(steps), tuple(folded), tuple(durations))


def value_of(one: Entry) -> bytes:
    """Returns the value of a record as a coordinator of old clients writes it.

    If the record has no partitions, returns arbitrary bytes, which differ for each record.
    """
    record = one.record
    if not one.participants:
        return b"raw %d" % record.offset
    return transaction_log.value(
        0,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        timeout_ms=record.timeout_ms,
        status=record.state,
        topics=[(topic.topic, topic.partitions) for topic in one.participants],
        last_update_ms=record.last_update_ms,
        start_ms=record.start_ms,
    )


def is_completion(before: LogRecord, after: LogRecord) -> bool:
    return (before.state, after.state) == (states.PREPARE_COMMIT, states.COMPLETE_COMMIT)


def _histograms(partition: int, reported: MinuteSums[int]) -> Iterator[Durations]:
    for kind, number, ms in (
        (OPEN, reported.opened, reported.open_sum_ms),
        (MARKER, reported.marked, reported.marker_sum_ms),
    ):
        if number:
            buckets = [0] * (len(BOUNDS_MS[kind]) + 1)
            buckets[bucket(kind, ms)] = 1
            yield Durations(partition, kind, tuple(buckets), ms)


def read(
    lo: int,
    hi: int,
    *,
    partition: int = 0,
    generation: int = 0,
    topic_id: str = "T",
    end: int | None = None,
    asked_at_ms: int = NOW_MS,
    gap: Gap | None = None,
    counts: bool = True,
) -> RangeRead:
    end = hi if end is None else end
    return RangeRead(
        partition, topic_id, generation, lo, hi, 1, 0, 0, end, asked_at_ms, hi - lo, 100 * (hi - lo), gap, counts
    )


def batch(entries: Sequence[Entry], span: RangeRead, *more: LogBatch, rejects: Sequence[Reject] = ()) -> LogBatch:
    """Returns the batch for one read of one partition, joined with the batches in `more`."""
    folded = fold(span.partition, entries, span.counts)._replace(ranges=(span,), rejects=tuple(rejects))
    return LogBatch._make(
        tuple(fact for part in column for fact in part) if isinstance(column[0], tuple) else column[0]
        for column in zip(folded, *more, strict=True)
    )


def rows(engine: Engine, table: Table, cluster_id: int, *leave_out: str) -> list[dict[str, Any]]:
    """Returns all rows of a cluster as dictionaries, in the order of the key, without `cluster_id` and the columns
    `leave_out`."""
    columns = [c for c in table.c if c.name not in ("cluster_id", *leave_out)]
    query = select(*columns).where(table.c.cluster_id == cluster_id).order_by(*table.primary_key.columns)
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def row(engine: Engine, cluster_id: int, transactional_id: bytes = b"pay") -> dict[str, Any]:
    (found,) = (
        r for r in rows(engine, schema.transactional_ids, cluster_id) if r["transactional_id"] == transactional_id
    )
    return found


def counters(engine: Engine, cluster_id: int) -> dict[str, int]:
    """Returns the counters, keyed by name, or by name/label if there is a label. Histograms are left out."""
    found = [r for r in rows(engine, schema.counters, cluster_id) if "_ms_" not in r["name"]]
    return {"/".join(filter(None, (r["name"], r["label"]))): r["value"] for r in found}


TABLES = (
    schema.log_partitions,
    schema.transactional_ids,
    schema.left_behind_records,
    schema.open_participants,
    schema.producer_ids,
    schema.coordinator_states,
    schema.counters,
    schema.cluster_minutes,
    schema.id_minutes,
    schema.transitions,
    schema.rejects,
    schema.data_gaps,
    schema.source_status,
    schema.data_partitions,
    schema.partition_watch,
    schema.open_entries,
    schema.group_offsets,
)


def everything(engine: Engine, cluster_id: int) -> dict[str, list[dict[str, Any]]]:
    """Returns all rows of a cluster in TABLES, keyed by the name of the table. Leaves out the generated row numbers,
    and `is_examined`, which only shows how soon the application of an id was found."""
    return {table.name: rows(engine, table, cluster_id, "id", "is_examined") for table in TABLES}


def as_lone(reported: LogBatch) -> LogBatch:
    """Returns the batch with its runs as columns (`LoneRuns`). The batch must contain only one run for each id."""
    runs = sorted(reported.runs, key=lambda run: run.transactional_id)
    partition, ids, first, last, _, records, participants, *ended = map(list, zip(*runs, strict=True))
    lone = LoneRuns(
        np.array(partition),
        ids,
        Records(*map(np.array, zip(*first, strict=True))),
        Records(*map(np.array, zip(*last, strict=True))),
        np.array(records),
        participants,
        np.array(ended[0]),
        np.array(ended[1]),
        ended[2],
    )
    return reported._replace(runs=(), lone=lone)
