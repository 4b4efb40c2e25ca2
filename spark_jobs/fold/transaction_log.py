"""Folds many records into few facts: the executors' half of the work, one pass over columns, no Spark and no network.

A run sums up consecutive records of one id under one producer id. A record by itself is a run, too, and runs that are
folded again join their neighbours. So folding piece by piece gives the same as folding at once (`merge` is associative
over adjacent pieces of a log). Facts from pairs of neighbouring records are collected on the way
(`spark_jobs.fold.transitions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_ID, Records
from service.wire.log_columns import TOMBSTONE, UNDECODABLE, LogColumns
from spark_jobs.fold.byte_strings import byte_strings
from spark_jobs.fold.transitions import PairFacts, Pairs, Scope

Array = np.ndarray[Any, Any]
NOTHING = -1


class Runs(NamedTuple):
    """Columns of `service.domain.transaction_log.facts.Run`. After `merge`, the runs of an id in a partition follow one
    another, in log order.

    `value` is the raw value of `last` if `last` leaves the transaction open and lists partitions, else null.
    `ended_value` is the raw value of the record at `ended_offset`; null if the run has no PrepareX with partitions.
    """

    partition: Array
    transactional_id: pa.Array
    first: Records
    last: Records
    joined: Array
    records: Array
    value: Any
    ended_offset: Array
    ended_state: Array
    ended_value: Any


class Folded(NamedTuple):
    """The result of a fold: runs, and the facts from pairs of neighbouring records inside them."""

    runs: Runs
    pair_facts: tuple[PairFacts, ...]


def fold(columns: LogColumns, scope: Scope) -> Folded:
    """Folds decoded records of any number of partitions. The records of each partition are in log order."""
    rows = len(columns.offset)
    state = _states(columns)
    fields = {name: getattr(columns, name) for name in Records._fields if name != "state"}
    records = Records(state=state, **fields)
    is_same = records.previous_producer_id == records.producer_id
    records = records._replace(previous_producer_id=np.where(is_same, NO_ID, records.previous_producer_id))
    ends = ((state == states.PREPARE_COMMIT) | (state == states.PREPARE_ABORT)) & (columns.partition_count > 0)
    row_numbers = np.arange(rows)  # instead of values, which are fetched below for the few rows that need one
    single = Runs(
        partition=columns.partition,
        transactional_id=byte_strings(columns.transactional_ids),
        first=records,
        last=records,
        joined=np.zeros(rows, np.bool_),
        records=np.ones(rows, np.int64),
        value=row_numbers,
        ended_offset=np.where(ends, columns.offset, NOTHING),
        ended_state=np.where(ends, state, np.int16(NOTHING)),
        ended_value=row_numbers,
    )
    runs, pair_facts = merge(Folded(single, ()), scope)
    is_open = np.isin(runs.last.state, list(states.OPEN)) & (runs.last.partition_count > 0)
    return Folded(
        runs._replace(
            value=_values(columns, runs.value, is_open),
            ended_value=_values(columns, runs.ended_value, runs.ended_offset >= 0),
        ),
        pair_facts,
    )


def concat(pieces: Sequence[Folded]) -> Folded:
    """Joins the results of adjacent pieces of the log, in log order. Does not merge their runs."""
    if len(pieces) == 1:
        return pieces[0]
    columns = zip(*(piece.runs for piece in pieces), strict=True)
    return Folded(
        Runs._make(map(_joined, columns)), tuple(pair_facts for piece in pieces for pair_facts in piece.pair_facts)
    )


def merge(folded: Folded, scope: Scope) -> Folded:
    """Merges neighbouring runs of one id under the same producer id into one run. A run stays apart if the previous run
    of the id is under another producer id. The run is then marked as `joined`, because the record before its first
    record was in the same fold."""
    runs = folded.runs
    if not len(runs.partition):
        return folded
    order, key = _by_id(runs)
    neighbours = key[1:] == key[:-1]
    joined = runs.joined[order]
    new = np.flatnonzero(neighbours & ~joined[1:])
    pairs = Pairs(runs.partition, runs.transactional_id, runs.last, order[new], runs.first, order[new + 1], key[new])
    joined[1:] |= neighbours

    producer_id = runs.first.producer_id[order]
    changes = producer_id[1:] != runs.last.producer_id[order[:-1]]
    starts = np.flatnonzero(np.concatenate(([True], ~neighbours | changes)))
    first, last = order[starts], order[np.append(starts[1:], len(order)) - 1]
    newest_end = np.maximum.reduceat(np.where(runs.ended_offset[order] >= 0, np.arange(len(order)), NOTHING), starts)
    ended = order[np.where(newest_end < 0, starts, newest_end)]
    return Folded(
        Runs(
            partition=runs.partition[first],
            transactional_id=_take(runs.transactional_id, first),
            first=runs.first.take(first),
            last=runs.last.take(last),
            joined=joined[starts],
            records=np.add.reduceat(runs.records[order], starts),
            value=_take(runs.value, last),
            ended_offset=runs.ended_offset[ended],
            ended_state=runs.ended_state[ended],
            ended_value=_take(runs.ended_value, ended),
        ),
        (*folded.pair_facts, pairs.facts(scope)) if len(new) else folded.pair_facts,
    )


def _joined(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], Records):
        return Records._make(map(_joined, zip(*columns, strict=True)))
    return pa.concat_arrays(columns) if isinstance(columns[0], pa.Array) else np.concatenate(columns)


def _take(column: Any, rows: Array) -> Any:
    return column.take(pa.array(rows)) if isinstance(column, pa.Array) else column[rows]


def _by_id(runs: Runs) -> tuple[Array, Array]:
    """Returns the row numbers, grouped by (partition, id), and ascending within a group. Also returns, for each row
    number, the number of its group.

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


def _values(columns: LogColumns, rows: Array, wanted: Array) -> pa.Array:
    """Returns the raw values of the rows `rows`; null where `wanted` is False."""
    chosen = rows[wanted]
    strings = byte_strings(columns.values.rows(chosen))
    places = np.full(len(rows), NOTHING)
    places[wanted] = np.arange(len(chosen))
    return strings.take(pa.array(places, mask=~wanted))
