"""Finds how an entry that hung, or seemed to hang, has ended: by a marker of a coordinator, by a marker that no
coordinator decided, or by the loss of its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from service.domain.findings.kinds import Resolution
from service.domain.partitions.open_entries import ADOPTED_AFTER_MS, Entry
from service.domain.worlds.markers import Marker

SKEW_MS: Final = 2_000
"""Maximum difference (ms) between two clocks of the cluster."""


class EndedTransaction(NamedTuple):
    """The decoded PrepareX of the transaction that ended last under a producer id. Transactions without partitions do
    not count.

    `start_ms` and `at_ms` (the time of the decision) are by the coordinator's clock.
    """

    is_commit: bool
    producer_epoch: int
    start_ms: int
    at_ms: int
    partitions: frozenset[tuple[str, int]]


def resolution_of(
    entry: Entry,
    markers: Sequence[Marker],
    *,
    log_start: int,
    high_watermark: int,
    ended: EndedTransaction | None,
    by_us: bool | None,
) -> Resolution:
    """Returns how the entry ended. `markers`: of the entry's producer id, after the offset where the entry was last
    seen open. `ended`: the last transaction that ended under the producer id; None if that transaction is not known, or
    was complete while the entry was still open. `by_us`: whether `resolve` has written a marker for the entry; None if
    that is not known."""
    if high_watermark <= entry.start_offset:
        return Resolution.TRUNCATED
    if not markers:
        return Resolution.RETENTION if log_start > entry.start_offset else Resolution.HEALED
    marker = markers[0]
    if by_us is None:
        return Resolution.HEALED
    if by_us:
        return Resolution.OUR_MARKER
    if ended is not None and _may_be_its_marker(marker, ended, entry):
        if not (ended.at_ms - SKEW_MS <= marker.at_ms and ended.at_ms > entry.first_seen_ms):
            return Resolution.HEALED  # three clocks: the coordinator's, the leader's and ours
        is_younger = ended.start_ms > entry.first_seen_ms + ADOPTED_AFTER_MS
        return Resolution.ADOPTION if is_younger else Resolution.COORDINATOR_MARKER
    return Resolution.FOREIGN_COMMIT if marker.is_commit else Resolution.FOREIGN_ABORT


def _may_be_its_marker(marker: Marker, ended: EndedTransaction, entry: Entry) -> bool:
    """Returns whether the marker may be the one that the coordinator wrote for `ended`: compares partition, epoch
    and outcome. Clocks are not compared, so a marker by hand with that epoch and outcome passes, too."""
    return (
        entry.topic_partition in ended.partitions
        and marker.producer_epoch == ended.producer_epoch
        and marker.is_commit in (None, ended.is_commit)
    )
