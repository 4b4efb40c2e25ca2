"""Finds the open entry that pins the LSO of a partition, and decides whether everything open there can be judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from service.domain.findings.confirmation import CLIENT_WAITS_MS
from service.domain.findings.hanging import can_still_write
from service.domain.partitions.facts import EPOCH_NOT_REPORTED
from service.domain.partitions.open_entries import Entry, Relation
from service.domain.partitions.state import PartitionState
from service.domain.reasons.reason import Reason
from service.domain.reasons.unjudged import NotAllRead, NotReadYet, ProducerUnknown
from service.domain.transaction_log.states import NO_TIME

SAMPLE_FRESH_MS: Final = 10_000
"""Age (ms) up to which a sample of all partitions describes their present state."""

YOUNG_MS: Final = 3_000
"""Facts that are missing about a stall or an entry younger than this (ms) are no coverage gap: the entry may not have
been read yet, or its owner may not have been stored yet."""

CONFIRMATION_TAKES_MS: Final = CLIENT_WAITS_MS + 10_000
"""Maximum time (ms) for the three confirmation steps of an entry without owner. The client of such an entry may be
waiting for a broker for CLIENT_WAITS_MS. A fact that is still missing when the entry has this age is a coverage
gap."""

SETTLED_MS: Final = 1_000
"""Longest time (ms) from the end of a transaction that held the LSO until the LSO moves, if the LSO moves at all."""


def blocker_of(stall: PartitionState, entries: Iterable[Entry]) -> Entry | None:
    """Returns the entry that holds the LSO: it begins at the LSO, and the batch there has its producer id. Returns None
    if no entry is known to hold the LSO.

    If the LSO is at the log start or below it, records may have been deleted there, so the batch may not show which
    entry holds the LSO. (Kafka 3.9 moves the LSO to the log start when it deletes records; 4.3 leaves the LSO below the
    log start.) In this case the oldest entry holds the LSO, if DescribeProducers listed all open entries, and if that
    entry begins at or below the log start.
    """
    if stall.is_read and stall.described and stall.last_stable_offset <= stall.log_start:
        oldest = min(entries, key=lambda entry: entry.start_offset, default=None)
        return oldest if oldest is not None and oldest.start_offset <= stall.log_start else None
    if not _has_data_at_lso(stall) or stall.first is None:
        return None
    at_lso = (entry for entry in entries if entry.start_offset == stall.last_stable_offset)
    return next((entry for entry in at_lso if entry.producer_id == stall.first.producer_id), None)


def unreplicated(stall: PartitionState, entries: Iterable[Entry], as_of_ms: int) -> Entry | None:
    """Returns the entry at the LSO if its marker is written but not replicated yet; else None. The sign of such a
    marker: the leader lists nothing open there (DescribeProducers), and SETTLED_MS later the LSO has still not
    moved."""
    if stall.first is None or stall.read_at_ms is None or stall.stalled_since_ms is None:
        return None
    if not stall.described or not _has_data_at_lso(stall):
        return None
    if as_of_ms - stall.read_at_ms < SETTLED_MS or any(
        entry.start_offset <= stall.last_stable_offset for entry in entries
    ):
        return None
    return Entry(
        topic=stall.topic,
        partition=stall.partition,
        producer_id=stall.first.producer_id,
        producer_epoch=stall.first.producer_epoch,
        start_offset=stall.last_stable_offset,
        coordinator_epoch=EPOCH_NOT_REPORTED,
        last_timestamp_ms=NO_TIME,
        records=None,
        bytes=None,
        first_seen_ms=stall.stalled_since_ms,
        seen_at_ms=stall.read_at_ms,
    )


def why_not_judged(stall: PartitionState, relations: Sequence[tuple[Entry, Relation]], as_of_ms: int) -> Reason | None:
    """Returns the reason why something that is open on the partition cannot be judged. Returns None if the partition is
    not stalled, if everything can be judged, or if the missing facts may still arrive (YOUNG_MS,
    CONFIRMATION_TAKES_MS)."""
    if stall.stalled_since_ms is None or as_of_ms - stall.stalled_since_ms < YOUNG_MS:
        return None
    if not stall.is_read:
        return stall.read_why or NotReadYet()
    if not stall.is_complete:
        return NotAllRead(stall.read_why)
    for entry, relation in relations:
        may_wait = relation.is_unowned and can_still_write(entry, relation.holder)
        takes_ms = CONFIRMATION_TAKES_MS if may_wait else YOUNG_MS
        if relation.why is not None and as_of_ms - entry.first_seen_ms >= takes_ms:
            return ProducerUnknown(entry.producer_id, relation.why)
    return None


def _has_data_at_lso(stall: PartitionState) -> bool:
    first = stall.first
    return (
        stall.is_read
        and stall.last_stable_offset > stall.log_start
        and first is not None
        and first.is_transactional
        and not first.is_control
    )
