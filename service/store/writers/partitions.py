"""Stores, exactly once, what was read of data partitions: the newest observation and the open entries of each
partition, and the batches of tailed partitions."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, select, update

from service.domain.partitions.facts import OBSERVED, PartitionsBatch, StalledRead, TopicPartition
from service.domain.partitions.ledger import LedgerBatch, Volume
from service.domain.partitions.open_entries import Entry
from service.domain.partitions.state import ObservedPartition
from service.domain.reasons.coding import decode, encode, encode_if
from service.domain.source_state import SourceName
from service.domain.transaction_log.id_delta import minute_of
from service.store.many_rows import Upsert, rows_at
from service.store.progress import positions
from service.store.rows.partitions import Partitions
from service.store.schema import (
    data_partitions,
    findings,
    open_entries,
    partition_markers,
    partition_minutes,
    partition_watch,
)
from service.store.writers.marker_audit import keep_markers
from service.store.writers.source import NEVER_MS, SourceWriter, begin_generations, finish_ranges, plan

ALL_FROM: Final = 500
"""If a batch has all watched partitions, or at least this many, one query reads all rows of the cluster. For any other
batch, only the rows of the batch's partitions are read, by their keys."""

GONE_KEPT_MS: Final = 3_600_000
"""Time (ms) for which the row of a deleted partition is kept, so that the judge learns of the deletion. While the
partition has open findings, its row is kept longer."""

_OBSERVED = tuple(c.name for c in data_partitions.c if c.name in (*OBSERVED, "answered_at_ms"))
_OBSERVED_VALUES = attrgetter(*_OBSERVED)
_STORED_FIELDS = tuple(field.name for field in fields(ObservedPartition))
_READ = (
    *("read_at_ms", "read_lso", "described", "is_whole", "lag_bytes", "read_why"),
    *("first_base_offset", "first_producer_id", "first_producer_epoch", "first_is_transactional", "first_is_control"),
    *("first_timestamp_ms", "first_max_timestamp_ms"),
)
_NOT_READ: Final = (None,) * len(_READ)
_NO_FIRST: Final = (None,) * 7

_STORED = select(*(data_partitions.c[name] for name in _STORED_FIELDS))
_STORED_ENTRIES = select(*(open_entries.c[name] for name in Entry._fields))
_OBSERVATIONS = Upsert(
    data_partitions, columns=("cluster_id", *_OBSERVED, "why_code"), replace=(*_OBSERVED[2:], "why_code")
)
_ENTRIES = Upsert(open_entries, replace=Entry._fields[3:], columns=("cluster_id", *Entry._fields))
_WATCH = Upsert(partition_watch, replace=("observed_at_ms", "not_covered"))


def _at(table: Table) -> ColumnElement[bool]:
    return (
        (table.c.cluster_id == bindparam("of_cluster"))
        & (table.c.topic == bindparam("of_topic"))
        & (table.c.partition == bindparam("of_partition"))
    )


_SET_READ = update(data_partitions).where(_at(data_partitions)).values({name: bindparam(name) for name in _READ})
_DROP_ROW = delete(data_partitions).where(_at(data_partitions))
_DROP_ENTRY = delete(open_entries).where(_at(open_entries), open_entries.c.producer_id == bindparam("of_producer"))


class PartitionWriter(SourceWriter):
    """Stores the newest observations and reads of the sampler."""

    source = SourceName.PARTITIONS

    def apply(self, batch: PartitionsBatch, now_ms: int, before_ms: int | None = None) -> bool:
        """Writes everything in the batch that is new, in one transaction. Returns True if the batch has a new read of a
        stalled partition. `before_ms`: duration of the previous batch, which is added to a histogram.

        Raises LeaseLost (stop) or StoreUnavailable (try again); then nothing was written.
        """
        with self._transaction(before_ms) as connection:
            watched_ms = connection.scalar(
                select(partition_watch.c.observed_at_ms).where(partition_watch.c.cluster_id == self._cluster_id)
            )
            places = _places(batch)
            before = self._stored(connection, places, watched_ms or NEVER_MS)
            after = Partitions(before.watched_ms, dict(before.rows), {at: dict(e) for at, e in before.entries.items()})
            for seen in sorted(batch.observations, key=attrgetter("observed_at_ms")):
                after.apply_observation(seen)
            for read in sorted(batch.reads, key=attrgetter("read_at_ms")):
                after.apply_read(read)
            is_newest = batch.observed_at_ms >= before.watched_ms
            if is_newest and batch.is_full:
                _forget_others(after, batch, self._found(connection), now_ms)
            self._write_rows(connection, before, after)
            self._write_entries(connection, before, after)
            if is_newest:
                _WATCH.write(connection, [(self._cluster_id, batch.observed_at_ms, batch.not_covered)])
                self._save_status(connection, batch.observed_at_ms, batch.trouble)
            return bool(after.reads)

    def _stored(self, connection: Connection, places: Sequence[TopicPartition] | None, watched_ms: int) -> Partitions:
        found = Partitions(watched_ms, {}, {})
        for row in rows_at(connection, _STORED, data_partitions, self._cluster_id, places):
            stored = ObservedPartition(*row)
            found.rows[row[0], row[1]] = stored if row.why is None else replace(stored, why=decode(row.why))
        for row in rows_at(connection, _STORED_ENTRIES, open_entries, self._cluster_id, places):
            found.entries.setdefault((row[0], row[1]), {})[row.producer_id] = Entry._make(row)
        return found

    def _found(self, connection: Connection) -> set[TopicPartition]:
        """Returns the partitions with open findings."""
        is_open = (findings.c.cluster_id == self._cluster_id, findings.c.resolved_at_ms.is_(None))
        rows = connection.execute(select(findings.c.topic, findings.c.partition).where(*is_open))
        return {(row.topic, row.partition) for row in rows}

    def _write_rows(self, connection: Connection, before: Partitions, after: Partitions) -> None:
        observed = [after.rows[place] for place in sorted(after.observed) if place in after.rows]
        _OBSERVATIONS.write(connection, [(self._cluster_id, *_observation_columns(row)) for row in observed])
        read = [(place, _read_columns(read)) for place, read in after.reads.items()]
        for row in observed:
            old = before.rows.get((row.topic, row.partition))
            if old is not None and old.read_at_ms is not None and row.read_at_ms is None:
                read.append(((row.topic, row.partition), _NOT_READ))
        if read:
            rows = [self._key(place) | dict(zip(_READ, columns, strict=True)) for place, columns in read]
            connection.execute(_SET_READ, rows)
        if gone := before.rows.keys() - after.rows.keys():
            connection.execute(_DROP_ROW, [self._key(place) for place in sorted(gone)])

    def _write_entries(self, connection: Connection, before: Partitions, after: Partitions) -> None:
        gone, changed = [], []
        for place in sorted(before.entries.keys() | after.entries.keys()):
            old, new = before.entries.get(place, {}), after.entries.get(place, {})
            gone += [self._key(place) | {"of_producer": producer_id} for producer_id in old.keys() - new.keys()]
            changed += [(self._cluster_id, *entry) for key, entry in new.items() if old.get(key) != entry]
        if gone:
            connection.execute(_DROP_ENTRY, gone)
        _ENTRIES.write(connection, changed)

    def _key(self, place: TopicPartition) -> dict[str, Any]:
        return {"of_cluster": self._cluster_id, "of_topic": place[0], "of_partition": place[1]}


def _places(batch: PartitionsBatch) -> list[TopicPartition] | None:
    """Returns the partitions of which the batch has observations or reads. Returns None if all rows are to be read: the
    batch has all partitions, or at least ALL_FROM."""
    if batch.is_full:
        return None
    asked = {(fact.topic, fact.partition) for facts in (batch.observations, batch.reads) for fact in facts}
    return None if len(asked) >= ALL_FROM else sorted(asked)


def _forget_others(
    partitions: Partitions, batch: PartitionsBatch, found: Container[TopicPartition], now_ms: int
) -> None:
    """Forgets the partitions that `batch`, a batch of all watched partitions, does not name: they are not watched any
    more. A deleted partition is kept for GONE_KEPT_MS, and for longer if it has open findings. `found`: the partitions
    with open findings."""
    named = {(look.topic, look.partition) for look in batch.observations}
    for place in partitions.rows.keys() - named:
        row = partitions.rows[place]
        if not row.is_gone or (row.observed_at_ms < now_ms - GONE_KEPT_MS and place not in found):
            del partitions.rows[place]
            partitions.entries.pop(place, None)


def _observation_columns(row: ObservedPartition) -> tuple[Any, ...]:
    """Returns the row's values in the order of _OBSERVED, then the code of its reason."""
    if row.why is None:
        return *_OBSERVED_VALUES(row), None
    values = dict(zip(_OBSERVED, _OBSERVED_VALUES(row), strict=True)) | {"why": encode(row.why)}
    return *values.values(), row.why.code


def _read_columns(read: StalledRead) -> tuple[Any, ...]:
    """Returns the read's values in the order of _READ."""
    shown = read.read_at_ms, read.last_stable_offset, read.described, read.is_whole, read.lag_bytes, encode_if(read.why)
    return *shown, *(_NO_FIRST if read.first is None else read.first)


_VOLUMES = Upsert(partition_minutes, add=Volume._fields[3:])
_MARKERS = Upsert(partition_markers)


class LedgerWriter(SourceWriter):
    """Stores the volumes and markers of tailed partitions."""

    source = SourceName.LEDGER

    def apply(self, batch: LedgerBatch, now_ms: int, before_ms: int | None = None) -> None:
        """Writes facts and positions in one transaction. `before_ms`: duration of the previous batch, which is added to
        a histogram.

        Raises OutOfSequence (start again at the store's progress), LeaseLost (stop) or StoreUnavailable (try again);
        then nothing was written.
        """
        with self._transaction(before_ms) as connection:
            facts = (batch.ranges, batch.volumes, batch.markers)  # facts without a range are refused
            for topic in sorted({one.topic for some in facts for one in some}):
                self._apply_topic(connection, batch, topic, now_ms)
            self._save_status(connection, now_ms, batch.trouble)

    def _apply_topic(self, connection: Connection, batch: LedgerBatch, topic: str, now_ms: int) -> None:
        log = (self._cluster_id, SourceName.LEDGER, topic)
        volumes = [volume for volume in batch.volumes if volume.topic == topic]
        markers = [marker for marker in batch.markers if marker.topic == topic]
        ranges = [topic_range.read for topic_range in batch.ranges if topic_range.topic == topic]
        with_facts = {volume.partition for volume in volumes} | {marker.partition for marker in markers}
        steps = plan(positions(connection, *log), ranges, with_facts).steps
        begin_generations(connection, *log, steps.values(), now_ms)
        begun = [
            Volume(topic, partition, minute_of(now_ms), 0, 0, 0, 0, 0)
            for partition, step in steps.items()
            if step.before is None
        ]
        counted = [volume for volume in volumes if volume.partition in steps]
        _VOLUMES.write(connection, [(self._cluster_id, *volume) for volume in (*begun, *counted)])
        ends = [marker for marker in markers if marker.partition in steps]
        _MARKERS.write(connection, [(self._cluster_id, *end[:-1]) for end in ends])
        unended = [one for one in batch.unended if one.topic == topic and one.partition in steps]
        keep_markers(connection, self._cluster_id, topic, ends, unended, steps, now_ms)
        finish_ranges(connection, *log, steps.values(), now_ms)
