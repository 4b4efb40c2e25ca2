"""Many records to few runs: the executors' half of the work, one pass over columns, no Spark and no network.

A run is what consecutive records of one id under one producer id amount to. A record by itself is a run too, and
folding runs again joins neighbours, so folding piece by piece gives what folding at once gives (`merge` is associative
over adjacent pieces of a log). What a pair of neighbouring records means is `service.domain.outcomes`' business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from service.domain import outcomes, states
from service.domain.facts import NO_ID
from service.wire.columns import TOMBSTONE, UNDECODABLE, LogColumns

Array = np.ndarray[Any, Any]


class Records(NamedTuple):
    """Columns of `service.domain.facts.LogRecord`: the same fields, each an array with one element a row."""

    offset: Array
    timestamp_ms: Array
    leader_epoch: Array
    state: Array
    producer_id: Array
    producer_epoch: Array
    timeout_ms: Array
    last_update_ms: Array
    start_ms: Array
    client_transaction_version: Array
    previous_producer_id: Array
    partition_count: Array

    def take(self, rows: Array) -> Records:
        return Records(*(column[rows] for column in self))


class Runs(NamedTuple):
    """Columns of `service.domain.facts.Run`, ordered by (partition, id, first offset) once merged."""

    partition: Array
    transactional_id: pa.Array
    first: Records
    last: Records
    joined: Array
    records: Array
    commits: Array
    aborts: Array
    participants: Array  # of objects: tuple[tuple[topic, tuple[partition, ...]], ...]


def fold(columns: LogColumns) -> Runs:
    """Fold decoded records of any number of partitions; each partition's in log order."""
    rows = len(columns.offset)
    records = Records(
        offset=columns.offset,
        timestamp_ms=columns.timestamp_ms,
        leader_epoch=columns.leader_epoch,
        state=_states(columns),
        producer_id=columns.producer_id,
        producer_epoch=columns.producer_epoch,
        timeout_ms=columns.timeout_ms,
        last_update_ms=columns.last_update_ms,
        start_ms=columns.start_ms,
        client_transaction_version=columns.client_transaction_version,
        previous_producer_id=np.where(
            columns.previous_producer_id == columns.producer_id, NO_ID, columns.previous_producer_id
        ),
        partition_count=columns.partition_count,
    )
    nothing = np.zeros(rows, np.int64)
    single = Runs(
        partition=columns.partition,
        transactional_id=columns.transactional_ids,
        first=records,
        last=records,
        joined=np.zeros(rows, np.bool_),
        records=np.ones(rows, np.int64),
        commits=nothing,
        aborts=nothing,
        participants=np.arange(rows),  # of which row: decoded below, for the few that need it
    )
    runs = merge(single)
    return runs._replace(participants=_participants(columns, runs))


def concat(pieces: Sequence[Runs]) -> Runs:
    """Runs of adjacent pieces of the log, in log order, not merged yet."""
    if len(pieces) == 1:
        return pieces[0]

    def columns(of: Sequence[Records]) -> Records:
        return Records(*(np.concatenate(column) for column in zip(*of, strict=True)))

    return Runs(
        partition=np.concatenate([p.partition for p in pieces]),
        transactional_id=pa.concat_arrays([p.transactional_id for p in pieces]),
        first=columns([p.first for p in pieces]),
        last=columns([p.last for p in pieces]),
        joined=np.concatenate([p.joined for p in pieces]),
        records=np.concatenate([p.records for p in pieces]),
        commits=np.concatenate([p.commits for p in pieces]),
        aborts=np.concatenate([p.aborts for p in pieces]),
        participants=np.concatenate([p.participants for p in pieces]),
    )


def merge(runs: Runs) -> Runs:
    """Join neighbouring runs of the same id: under one producer id to one run, under another to a `joined` one."""
    if not len(runs.partition):
        return runs
    order, key = _by_id(runs)
    before, after = _Ending.of(runs.last, order[:-1]), _Ending.of(runs.first, order[1:])
    neighbours = key[1:] == key[:-1]
    joined = runs.joined[order]
    judged_here = neighbours & ~joined[1:]

    starts_run = np.concatenate(([True], ~(neighbours & (before.producer_id == after.producer_id))))
    starts = np.flatnonzero(starts_run)
    ends = np.append(starts[1:], len(order)) - 1

    def counted(rule: Any, column: Array) -> Array:
        total = column[order]
        total[1:] += rule(before, after) & judged_here
        return np.add.reduceat(total, starts)

    joined[1:] |= neighbours
    return Runs(
        partition=runs.partition[order[starts]],
        transactional_id=runs.transactional_id.take(pa.array(order[starts])),
        first=runs.first.take(order[starts]),
        last=runs.last.take(order[ends]),
        joined=joined[starts],
        records=np.add.reduceat(runs.records[order], starts),
        commits=counted(outcomes.commits, runs.commits),
        aborts=counted(outcomes.aborts, runs.aborts),
        participants=runs.participants[order[ends]],
    )


class _Ending(NamedTuple):
    """The columns `outcomes.Ending` looks at: only these are put in order for every row."""

    state: Array
    producer_id: Array
    start_ms: Array
    partition_count: Array

    @classmethod
    def of(cls, records: Records, rows: Array) -> _Ending:
        return cls(*(getattr(records, name)[rows] for name in cls._fields))


def _by_id(runs: Runs) -> tuple[Array, Array]:
    """Row numbers ordered by (partition, id), rows of one id as they came; and a number per row that tells ids apart.

    Sorting packed integers is several times faster than a stable sort of keys.
    """
    ids = runs.transactional_id.dictionary_encode()
    code = np.asarray(ids.indices, dtype=np.int64)
    spread = int(runs.partition.max()) + 1
    key = code * spread + runs.partition
    packed = np.sort((key << 32) | np.arange(len(key)))
    order = packed & 0xFFFFFFFF
    return order, packed >> 32


def _states(columns: LogColumns) -> Array:
    state = columns.status.astype(np.int16)
    state[columns.kind == TOMBSTONE] = states.EXPIRED
    state[columns.kind == UNDECODABLE] = states.UNKNOWN
    return state


def _participants(columns: LogColumns, runs: Runs) -> Array:
    decoded = np.empty(len(runs.partition), object)
    decoded[:] = [()] * len(decoded)
    is_open = np.isin(runs.last.state, list(states.OPEN)) & (runs.last.partition_count > 0)
    for row in np.flatnonzero(is_open):
        decoded[row] = columns.participants(int(runs.participants[row]))
    return decoded
