"""Folds the batch headers of tailed partitions into markers and into volume by minute. Turns these facts into rows and
back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from service.domain.partitions.ledger import NOTHING, LedgerBatch, Marker, TopicRange, Unended, Volume
from service.domain.reasons.reason import Reason, combined
from service.domain.transaction_log.facts import Gap, RangeRead
from service.domain.transaction_log.id_delta import MINUTE_MS
from service.wire.header_columns import HeaderColumns, header_columns, marker_at
from service.wire.log_columns import Chunk
from service.wire.records import COMMIT
from service.wire.vectors import Bools, Ints
from spark_jobs.fold.rows import READ, facts_from_rows, rows_of, struct_of, troubles_from_rows

OLDEST_MS: Final = 86_400_000
"""Maximum age (ms) of a timestamp that is used. A batch with an older timestamp, or with one in the future, counts for
the minute in which it is read. The reason: producers may write any timestamp, and every distinct minute takes a row in
the store."""

_SUMS: Final = len(Volume._fields) - 3
_NOTHING, _COMMITTED, _ABORTED = range(3)


class Tail:
    """Collects the facts about the partitions of one topic: volume by partition and minute, markers, and records that
    no marker has ended."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._sums: dict[tuple[int, int], Ints] = {}
        self._unended: dict[tuple[int, int], int] = {}
        self.markers: list[Marker] = []

    @property
    def volumes(self) -> list[Volume]:
        return [
            Volume(self._topic, partition, minute_ms, *sums.tolist())
            for (partition, minute_ms), sums in sorted(self._sums.items())
        ]

    @property
    def unended(self) -> list[Unended]:
        """Returns, for each producer id with records after its last marker, the first of these records."""
        return [Unended(self._topic, *place, offset) for place, offset in sorted(self._unended.items())]

    def add(self, chunk: Chunk, generation: int, now_ms: int) -> tuple[int, int]:
        """Counts the batches whose last offset lies in [lo, hi) of the chunk, so that a batch across the border of two
        chunks counts once.

        Returns the offset up to which everything is counted (at most `hi`; `lo` if there is no whole batch), and the
        number of records in the counted data batches.
        """
        found = header_columns(chunk.data)
        if not found.next_offset.size:
            return chunk.lo, 0
        reached = min(int(found.next_offset[-1]), chunk.hi)
        found = found.rows((found.next_offset > chunk.lo) & (found.next_offset <= chunk.hi))
        outcome = self._mark(chunk, found, generation)
        is_data = ~found.is_control
        records = np.where(is_data, found.records, 0)
        transactional = np.where(found.is_transactional, records, 0)
        counted = (records, found.size, transactional, outcome == _COMMITTED, outcome == _ABORTED)
        minutes, row = np.unique(_minutes(found.max_timestamp_ms, now_ms), return_inverse=True)
        sums = np.zeros((len(minutes), _SUMS), np.int64)
        for column, values in enumerate(counted):
            np.add.at(sums[:, column], row, values)
        for minute_ms, some in zip(minutes.tolist(), sums, strict=True):
            key = (chunk.partition, minute_ms)
            self._sums[key] = self._sums[key] + some if key in self._sums else some
        return max(reached, chunk.lo), int(records.sum())

    def _mark(self, chunk: Chunk, found: HeaderColumns, generation: int) -> Ints:
        """Returns, for each batch, the outcome that its marker writes; _NOTHING for a batch without a marker. Adds the
        markers to `markers`."""
        outcome = np.full(len(found.position), _NOTHING)
        ends_from = self._ended_by_each(chunk.partition, found)
        for row in np.flatnonzero(found.is_control).tolist():
            control = marker_at(chunk.data, int(found.position[row]), int(found.size[row]))
            if control is None:
                continue
            is_commit = control.type == COMMIT
            outcome[row] = _COMMITTED if is_commit else _ABORTED
            producer = int(found.producer_id[row]), int(found.producer_epoch[row])
            place = self._topic, chunk.partition, generation, control.offset
            first = ends_from.get(row, NOTHING)
            told = Marker(*place, *producer, control.coordinator_epoch, is_commit, control.timestamp_ms, first)
            self.markers.append(told)
        return outcome

    def _ended_by_each(self, partition: int, found: HeaderColumns) -> dict[int, int]:
        """Returns a mapping from the row of a marker to the offset of the first record that the marker ended; NOTHING
        if this `Tail` has read no such record. Remembers, for each producer id, the first record that no marker has
        ended."""
        rows = np.flatnonzero(found.is_transactional)
        if not rows.size:
            return {}
        rows = rows[np.argsort(found.producer_id[rows], kind="stable")]
        producer_id, is_marker = found.producer_id[rows], found.is_control[rows]
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = (producer_id[1:] != producer_id[:-1]) | is_marker[:-1]
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(rows)) - 1
        columns = (producer_id[first], found.base_offset[rows[first]], is_marker[first], rows[last], is_marker[last])
        ended: dict[int, int] = {}
        for producer, offset, is_alone, row, has_ended in zip(*(column.tolist() for column in columns), strict=True):
            place = partition, producer
            if not has_ended:
                self._unended.setdefault(place, offset)
            else:
                ended[row] = self._unended.pop(place, NOTHING if is_alone else offset)
        return ended


def _minutes(timestamp_ms: Ints, now_ms: int) -> Ints:
    is_time: Bools = (timestamp_ms > now_ms - OLDEST_MS) & (timestamp_ms <= now_ms)
    counted: Ints = np.where(is_time, timestamp_ms, now_ms) // MINUTE_MS * MINUTE_MS
    return counted


_LONG, _INT, _TEXT, _FLAG = pa.int64(), pa.int32(), pa.string(), pa.bool_()
_PLACE = {"topic": _TEXT, "partition": _INT}

_RANGE = struct_of(TopicRange, {"topic": _TEXT, "read": READ})
_TYPES: Final = {
    "volume": struct_of(Volume, dict.fromkeys(Volume._fields, _LONG) | _PLACE),
    "marker": struct_of(Marker, dict.fromkeys(Marker._fields, _LONG) | _PLACE | {"is_commit": _FLAG}),
    "unended": struct_of(Unended, dict.fromkeys(Unended._fields, _LONG) | _PLACE),
}


def ranges_to_rows(ranges: Iterable[TopicRange]) -> pa.RecordBatch:
    plain = [
        {"topic": topic, "read": read._asdict() | {"gap": read.gap and read.gap._asdict()}} for topic, read in ranges
    ]
    return rows_of("range", pa.array(plain, _RANGE))


def facts_to_rows(kind: str, facts: Sequence[Any]) -> pa.RecordBatch:
    """Returns the rows of volumes, markers or unended records. `kind`: a key of `_TYPES`."""
    fields = _TYPES[kind]
    columns = [pa.array([fact[i] for fact in facts], field.type) for i, field in enumerate(fields)]
    return rows_of(kind, pa.StructArray.from_arrays(columns, fields=list(fields)))


def batches_from_rows(table: pa.Table) -> Iterator[LedgerBatch]:
    """Yields a single batch, of all rows of a micro-batch."""
    ranges: list[TopicRange] = []
    volumes: list[Volume] = []
    markers: list[Marker] = []
    unended: list[Unended] = []
    troubles: list[Reason] = []
    for kind, facts in facts_from_rows(table):
        if kind == "range":
            ranges += [TopicRange(plain["topic"], _read(plain["read"])) for plain in facts.to_pylist()]
        elif kind == "volume":
            volumes += map(Volume._make, _columns(facts))
        elif kind == "marker":
            markers += map(Marker._make, _columns(facts))
        elif kind == "unended":
            unended += map(Unended._make, _columns(facts))
        else:
            troubles += troubles_from_rows(facts)
    yield LedgerBatch(tuple(ranges), tuple(volumes), tuple(markers), combined(troubles), tuple(unended))


def _columns(facts: pa.StructArray) -> Iterator[tuple[Any, ...]]:
    return zip(*(field.to_pylist() for field in facts.flatten()), strict=True)


def _read(plain: dict[str, Any]) -> RangeRead:
    read = RangeRead(**plain)
    return read._replace(gap=read.gap and Gap(**read.gap))  # type: ignore[arg-type]
