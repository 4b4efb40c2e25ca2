"""Reads the facts for a verdict on an open entry: its batches, the markers before it, and its owner's transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from service.domain.worlds.facts import Batches, EntryFacts, EntryQuery, FirstBatch
from service.domain.worlds.markers import Marker
from service.domain.worlds.transactions import Epochs, LogHistory
from service.kafka.client import KafkaClient
from service.kafka.leader_check import CheckedPartition, LogEnds
from service.kafka.log_history import id_history
from service.kafka.log_range import BatchesRead, DataBatch, batches_between
from service.kafka.offsets import offset_at_time

_LOG_MARGIN: Final = 5_000
"""Reading of the owner's log partition begins this many offsets before the lowest end offset in the samples, because a
transaction may have been open at that time. A deep read, and a read without such a sample, begin at offset 0."""
_RECORDS_BACK: Final = 300
"""Number of the owner's newest records in the transaction log whose markers are searched for: about a hundred
transactions."""
_TIME_MARGIN_MS: Final = 60_000
"""The search for markers begins this long (ms) before the time of a record, because clocks differ. The offset found by
this time is a hint, never a proof."""
_OFFSETS_BACK: Final = 10_000
"""A read of an entry without an owner begins at least this many offsets before the entry, because earlier markers show
whether the producer id is that of another cluster. For an entry with an owner, a deep read, and a read without a sample
from before the entry, begin there, too, if a record of the owner is known. So a short partition is read whole, which
proves more."""


def read_facts(
    client: KafkaClient, query: EntryQuery, partition: CheckedPartition, log: LogEnds | None
) -> EntryFacts | None:
    """Returns the facts about an entry. `partition`: the observation of its partition. `log`: the end offset of the
    owner's log partition, not needed without an owner. Returns None if there is an owner, but `log` lacks its
    partition, because the partition's leader changed or did not answer. Raises KafkaUnavailable or KafkaRefused."""
    history = None
    if query.transactional_id is not None:
        if log is None or query.log_partition not in log.offsets:
            return None
        leader, end = log.leaders[query.log_partition], log.offsets[query.log_partition]
        place = query.topic, query.partition
        lo = _log_start(query)
        history = id_history(client, leader, query.log_partition, query.transactional_id, place, lo, end)
    lo = max(_markers_from(client, query, partition, history), partition.ends.log_start)
    before = batches_between(
        client, query.topic, query.partition, partition.leader, query.producer_id, lo, query.start_offset
    )
    is_read = before.is_whole and before.reached >= query.start_offset
    markers, markers_from = (before.markers, before.unbroken_from) if is_read else ((), query.start_offset)
    start = max(query.start_offset, partition.ends.log_start)
    hi = partition.ends.high_watermark
    after = batches_between(client, query.topic, query.partition, partition.leader, query.producer_id, start, hi)
    is_whole = start == query.start_offset and after.is_whole and after.reached >= hi
    first = _first(query, before if is_read else None, after.data)
    batches = _batches(query, markers, first, after.data, is_whole=is_whole)
    return EntryFacts(history, markers, markers_from, batches, partition.asked_at_ms, partition.leader.epoch)


def _log_start(query: EntryQuery) -> int:
    known = [
        sample.ends_before_last[query.log_partition].offset
        for sample in query.samples
        if query.log_partition in sample.ends_before_last
    ]
    return 0 if query.is_deep or not known else max(min(known) - _LOG_MARGIN, 0)


def _markers_from(
    client: KafkaClient, query: EntryQuery, partition: CheckedPartition, history: LogHistory | None
) -> int:
    absent = [sample for sample in query.samples if sample.high_watermark <= query.start_offset]
    lo = min([query.start_offset, *(sample.high_watermark for sample in absent)])
    if absent and absent[-1].earlier_high_watermark:
        lo = min(lo, absent[-1].earlier_high_watermark)
    back = max(query.start_offset - _OFFSETS_BACK, 0)
    if history is None:
        return min(lo, back)
    if (absent and not query.is_deep) or not history.records:
        return lo
    oldest = history.records[-min(len(history.records), _RECORDS_BACK)]
    since_ms = oldest.timestamp_ms - _TIME_MARGIN_MS
    found = offset_at_time(client, query.topic, query.partition, partition.leader, since_ms)
    return min(lo, back) if found is None else min(lo, back, found)


def _first(query: EntryQuery, before: BatchesRead | None, data: Sequence[DataBatch]) -> FirstBatch | None:
    """Returns the entry's first batch; None if it was not read. `data`: the batches from the entry on. `before`: the
    batches before the entry; None if they could not be read."""
    if not data or not data[0].first <= query.start_offset <= data[0].last:
        return None
    batch = data[0]
    is_first_of_epoch = (
        before is not None
        and before.unbroken_from == 0
        and all(earlier.producer_epoch != batch.producer_epoch for earlier in before.data)
    )
    return FirstBatch(
        batch.producer_epoch, batch.sequence, batch.first_timestamp_ms, batch.leader_epoch, is_first_of_epoch
    )


def _batches(
    query: EntryQuery,
    markers: Sequence[Marker],
    first: FirstBatch | None,
    data: Sequence[DataBatch],
    *,
    is_whole: bool,
) -> Batches:
    if not is_whole or not data:
        # the leader refuses records with an epoch below the last marker's, and has seen none above the producer's
        lowest = max((marker.producer_epoch for marker in markers), default=0)
        return Batches(query.start_offset, query.start_offset, Epochs(lowest, query.producer_epoch), first, -1, False)
    epochs = [batch.producer_epoch for batch in data]
    return Batches(
        start_offset=query.start_offset,
        last_offset=data[-1].last,
        epochs=Epochs(min(epochs), max(epochs)),
        first=first,
        last_leader_epoch=data[-1].leader_epoch,
        is_whole=True,
        is_single=len(data) == 1,
    )
