"""Derives facts from pairs of neighbouring records, in columns: steps to be judged, commits by minute, durations.

The same rules, for two single records, are in `service.domain.transaction_log` (transitions, outcomes, id_delta). A
property test compares both.

`decisions` extracts the coordinators' decisions with their partitions. It runs only if markers are compared with
decisions, because nothing else needs the decoded partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.domain.transaction_log import outcomes, states, transitions
from service.domain.transaction_log.facts import Decided, Durations, MinuteSums, Participants, Records
from service.domain.transaction_log.id_delta import FIRST_MS, LAST_MS, MINUTE_MS
from service.domain.transaction_log.outcomes import BOUNDS_MS, LONGEST_MS, MARKER, OPEN
from service.domain.transaction_log.states import COMPLETE_COMMIT, PREPARE_COMMIT
from service.wire.log_columns import LogColumns
from service.wire.transaction_log import decode_value
from spark_jobs.fold.byte_strings import byte_strings

Array = np.ndarray[Any, Any]


class Scope(NamedTuple):
    """The log partitions whose records count (`counted`), and the ids with a full history. `history_prefixes`: if an id
    has one of these prefixes, every pair of its neighbouring records is a step."""

    counted: frozenset[int]
    history_prefixes: Sequence[bytes] = ()


class Steps(NamedTuple):
    """Columns of `transaction_log.facts.Step`."""

    partition: Array
    transactional_id: pa.Array
    before: Records
    after: Records


class Minutes(NamedTuple):
    """Columns of `transaction_log.facts.Minute`."""

    partition: Array
    transactional_id: pa.Array
    minute_ms: Array
    sums: MinuteSums[Array]


class PairFacts(NamedTuple):
    steps: Steps
    minutes: Minutes | None
    durations: tuple[Durations, ...]


class Pairs(NamedTuple):
    """Pairs of neighbouring records of one id: row `left[i]` of `before`, and row `right[i]` of `after`. The partition
    and the id of the pair are in row `right[i]` of `partition` and `transactional_id`. `id_number` is the same for all
    pairs of an id in a log partition. These pairs follow one another, in log order."""

    partition: Array
    transactional_id: pa.Array
    before: Records
    left: Array
    after: Records
    right: Array
    id_number: Array

    def facts(self, scope: Scope) -> PairFacts:
        before, after = self.before.take(self.left), self.after.take(self.right)
        is_step = ~transitions.is_plain(before, after) | self._has_prefix(scope.history_prefixes)
        is_step |= self._lacks_first_prepare(before, after)
        counting = np.isin(self.partition[self.right], list(scope.counted))
        minutes, durations = self._minutes(before, after, counting, is_step) if counting.any() else (None, ())
        return PairFacts(self._steps(np.flatnonzero(is_step)), minutes, durations)

    def _lacks_first_prepare(self, before: Records, after: Records) -> Array:
        """Returns True for each pair that completes a commit, unless the previous pair shows that the PrepareCommit is
        the transaction's first one. The driver judges the pairs for which the result is True, because only the driver
        knows the stored records."""
        known = np.zeros(len(self.left), np.bool_)
        follows = self.before.offset[self.left[1:]] == self.after.offset[self.right[:-1]]
        known[1:] = follows & (self.id_number[1:] == self.id_number[:-1])
        known[1:] &= ~transitions.is_prepared_again(before, after)[:-1]
        completes: Array = (before.state == PREPARE_COMMIT) & (after.state == COMPLETE_COMMIT)
        return completes & ~known

    def _has_prefix(self, prefixes: Sequence[bytes]) -> Any:
        if not prefixes:
            return False
        ids = self.transactional_id.take(pa.array(self.right)).cast(pa.binary())
        return np.logical_or.reduce([np.asarray(pc.starts_with(ids, pattern=prefix)) for prefix in prefixes])

    def _steps(self, chosen: Array) -> Steps:
        left, right = self.left[chosen], self.right[chosen]
        ids = self.transactional_id.take(pa.array(right))
        return Steps(self.partition[right], ids, self.before.take(left), self.after.take(right))

    def _minutes(
        self, before: Records, after: Records, counting: Array, is_step: Array
    ) -> tuple[Minutes | None, tuple[Durations, ...]]:
        """Returns two results: the sums of `id_delta.commit_sums` over the pairs, for each id and minute, and
        histograms of the durations. Neither contains the marker times of steps, because the driver adds these times.
        Returns (None, ()) if no pair counts."""
        prepares = (after.state == PREPARE_COMMIT) & (after.start_ms > 0) & (after.partition_count > 0)
        prepares &= ~transitions.is_repetition(before, after)
        rows = np.flatnonzero((outcomes.completes_commit(before, after) | prepares) & counting)
        if not len(rows):
            return None, ()
        before, after, right = before.take(rows), after.take(rows), self.right[rows]
        commits = outcomes.completes_commit(before, after)
        opened = prepares[rows]
        marked = commits & ~is_step[rows] & (before.state == PREPARE_COMMIT) & (before.partition_count > 0)
        marked &= transitions.is_same_transaction(before, after)
        at = after.timestamp_ms
        open_ms = np.where(opened, _between(after.start_ms, at), 0)
        marker_ms = np.where(marked, _between(before.timestamp_ms, at), 0)

        minute, number = np.clip(at, FIRST_MS, LAST_MS) // MINUTE_MS, self.id_number[rows]
        changes = (minute[1:] != minute[:-1]) | (number[1:] != number[:-1])
        starts = np.flatnonzero(np.concatenate(([True], changes)))
        never = np.iinfo(np.int64).max
        first = np.minimum.reduceat(np.where(commits, at, never), starts)

        def total(column: Array) -> Array:
            return np.add.reduceat(column.astype(np.int64, copy=False), starts)

        completed = total(commits)
        sums = MinuteSums(
            commits=completed,
            opened=total(opened),
            open_sum_ms=total(open_ms),
            open_max_ms=np.maximum.reduceat(open_ms, starts),
            marked=total(marked),
            marker_sum_ms=total(marker_ms),
            marker_max_ms=np.maximum.reduceat(marker_ms, starts),
            first_ms=np.where(completed == 0, 0, first),
            last_ms=np.maximum.reduceat(np.where(commits, at, 0), starts),
        )
        ids = self.transactional_id.take(pa.array(right[starts]))
        minutes = Minutes(self.partition[right[starts]], ids, minute[starts] * MINUTE_MS, sums)
        durations = (
            *_histograms(OPEN, self.partition[right], open_ms, opened),
            *_histograms(MARKER, self.partition[right], marker_ms, marked),
        )
        return minutes, durations


def _between(first: Array, last: Array) -> Array:
    """Returns durations, in columns, by the rule of `service.domain.transaction_log.outcomes.duration_between`.
    Differences are unsigned, because the difference of two times may not fit into a signed 64-bit number."""
    apart = last.astype(np.uint64) - first.astype(np.uint64)
    return np.where(last > first, np.minimum(apart, LONGEST_MS), 0).astype(np.int64)


def _histograms(kind: str, partition: Array, ms: Array, wanted: Array) -> list[Durations]:
    """Returns one histogram for each log partition, because counts are applied partition by partition."""
    found = []
    for p in np.unique(partition[wanted]).tolist():
        of_partition = ms[wanted & (partition == p)]
        buckets = np.bincount(np.searchsorted(BOUNDS_MS[kind], of_partition), minlength=len(BOUNDS_MS[kind]) + 1)
        found.append(Durations(p, kind, tuple(buckets.tolist()), int(of_partition.sum())))
    return found


_LONG, _INT = pa.int64(), pa.int32()

_TYPES = {
    "partition": _INT,
    "offset": _LONG,
    "transactional_id": pa.binary(),
    "state": _INT,
    "producer_id": _LONG,
    "producer_epoch": _INT,
    "start_ms": _LONG,
    "at_ms": _LONG,
    "value": pa.binary(),
}
_DECIDED = pa.struct([pa.field(name, kind) for name, kind in _TYPES.items()])


def decisions(columns: LogColumns, partitions: Collection[int]) -> pa.StructArray:
    """Returns the PrepareX records that list partitions. `partitions`: the log partitions whose records are wanted."""
    is_end = np.isin(columns.status, [states.PREPARE_COMMIT, states.PREPARE_ABORT]) & (columns.partition_count > 0)
    rows = np.flatnonzero(is_end & np.isin(columns.partition, list(partitions)))
    values = byte_strings(columns.values.rows(rows))
    found = (
        columns.partition[rows],
        columns.offset[rows],
        byte_strings(columns.transactional_ids.rows(rows)),
        columns.status[rows],
        columns.producer_id[rows],
        columns.producer_epoch[rows],
        columns.start_ms[rows],
        columns.timestamp_ms[rows],
        values,
    )
    arrays = [
        (one if isinstance(one, pa.Array) else pa.array(one)).cast(kind)
        for one, kind in zip(found, _TYPES.values(), strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(_DECIDED))


def decisions_from_rows(structs: pa.StructArray) -> list[Decided]:
    columns = (field.to_pylist() for field in structs.flatten())
    return [Decided._make((*fields, participants_of(value))) for *fields, value in zip(*columns, strict=True)]


def participants_of(value: bytes) -> tuple[Participants, ...]:
    """Returns the partitions in a record's value."""
    return tuple(Participants(topic, partitions) for topic, partitions in decode_value(value).partitions or ())
