"""How an open entry that nobody owned has ended: by a marker (whose?), or because its records are no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from service.domain.findings import kinds
from service.domain.partitions.open_entries import ADOPTED_AFTER_MS, Entry
from service.domain.transaction_log.causes import ADMIN, AMBIGUOUS, LIKELY, Cause
from service.domain.worlds.markers import Marker

SKEW_MS: Final = 2_000
"""By how much two clocks of the cluster may differ."""


class Ended(NamedTuple):
    """The last transaction with partitions that ended under a producer id: its PrepareX, decoded.

    `start_ms` and `at_ms` (of the decision) are the coordinator's clock.
    """

    is_commit: bool
    producer_epoch: int
    start_ms: int
    at_ms: int
    partitions: frozenset[tuple[str, int]]


def how_ended(
    entry: Entry,
    markers: Sequence[Marker],
    *,
    log_start: int,
    high_watermark: int,
    ended: Ended | None,
    by_us: bool,
) -> str:
    """A resolution of `kinds.RESOLUTIONS`. `markers` of its producer id, behind where it was seen open last; `ended`:
    the last transaction that ended under the producer id, unless it was complete while the entry was still open;
    `by_us`: `resolve` has written a marker for it."""
    if high_watermark <= entry.start_offset:
        return kinds.TRUNCATED
    if not markers:
        return kinds.RETENTION if log_start > entry.start_offset else kinds.HEALED
    marker = markers[0]
    if by_us:
        return kinds.OUR_MARKER
    if ended is not None and _is_its_marker(marker, ended, entry):
        is_younger = ended.start_ms > entry.first_seen_ms + ADOPTED_AFTER_MS
        return kinds.ADOPTION if is_younger else kinds.COORDINATOR_MARKER
    return kinds.FOREIGN_COMMIT if marker.is_commit else kinds.FOREIGN_ABORT


def _is_its_marker(marker: Marker, ended: Ended, entry: Entry) -> bool:
    """The coordinator wrote it when that transaction ended. A marker by hand comes later, or lacks the epoch."""
    return (
        entry.place in ended.partitions
        and marker.producer_epoch == ended.producer_epoch
        and marker.is_commit in (None, ended.is_commit)
        and ended.at_ms - SKEW_MS <= marker.at_ms
        and ended.at_ms > entry.first_seen_ms
    )


CLOCKS_MS: Final = 5_000
"""How far the clocks of two brokers may lie apart: a marker has the time of its partition's leader."""

CLOSE_MS: Final = 500
"""Clocks that somebody looks after are closer: what lies further off may be a marker by hand, soon after a decision."""


class Decision(NamedTuple):
    """That transactions of a producer id end: its markers were written from `from_ms` to `until_ms` (None: they still
    are). `marker`: COMMIT or ABORT.
    """

    marker: str
    from_ms: int
    until_ms: int | None
    cause: Cause


class Known(NamedTuple):
    """From when to when every decision is in the store."""

    from_ms: int
    until_ms: int


def cause_of_marker(marker: str, at_ms: int, decisions: Iterable[Decision], known: Known | None) -> Cause | None:
    """The cause of the decision that fits best, ambiguous where only clocks that differ make it fit.

    `decisions` are all of its producer id that are known; `known`: when these are all there were.

    A marker without any, at a time of which all are known, was written past the coordinator: `kafka-transactions.sh
    abort`, or another tool that sends WriteTxnMarkers. None: nobody can tell.
    """
    fitting = [
        (_distance(decision, at_ms), -decision.from_ms, decision)
        for decision in decisions
        if decision.marker == marker and _distance(decision, at_ms) <= CLOCKS_MS
    ]
    if fitting:
        distance_ms, _, decision = min(fitting, key=lambda fit: fit[:2])
        return decision.cause if distance_ms <= CLOSE_MS else decision.cause._replace(confidence=AMBIGUOUS)
    if known is not None and known.from_ms <= at_ms <= known.until_ms:
        return Cause(ADMIN, LIKELY)
    return None


def _distance(decision: Decision, at_ms: int) -> int:
    """0 while it was under way."""
    late = 0 if decision.until_ms is None else at_ms - decision.until_ms
    return max(decision.from_ms - at_ms, late, 0)
