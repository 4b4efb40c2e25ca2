"""Finds how an open entry without owner has ended: by a marker, and then by whose decision, or by the loss of its
records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from service.domain.findings.kinds import Resolution
from service.domain.partitions.batch_offsets import MarkerType
from service.domain.partitions.open_entries import ADOPTED_AFTER_MS, Entry
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.worlds.markers import Marker

SKEW_MS: Final = 2_000
"""Difference that two clocks of the cluster may have."""


class EndedTransaction(NamedTuple):
    """The last transaction with partitions that ended under a producer id: its PrepareX, decoded.

    `start_ms` and `at_ms` (of the decision) are the coordinator's clock.
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
    by_us: bool,
) -> Resolution:
    """Returns how the entry ended. `markers`: of the entry's producer id, after the offset where the
    entry was last seen open; `ended`: the last transaction that ended under the producer id, unless it was complete
    while the entry was still open; `by_us`: `resolve` has written a marker for the entry."""
    if high_watermark <= entry.start_offset:
        return Resolution.TRUNCATED
    if not markers:
        return Resolution.RETENTION if log_start > entry.start_offset else Resolution.HEALED
    marker = markers[0]
    if by_us:
        return Resolution.OUR_MARKER
    if ended is not None and _may_be_its_marker(marker, ended, entry):
        if not (ended.at_ms - SKEW_MS <= marker.at_ms and ended.at_ms > entry.first_seen_ms):
            return Resolution.HEALED  # three clocks: the coordinator's, the leader's and ours
        is_younger = ended.start_ms > entry.first_seen_ms + ADOPTED_AFTER_MS
        return Resolution.ADOPTION if is_younger else Resolution.COORDINATOR_MARKER
    return Resolution.FOREIGN_COMMIT if marker.is_commit else Resolution.FOREIGN_ABORT


def _may_be_its_marker(marker: Marker, ended: EndedTransaction, entry: Entry) -> bool:
    """Returns whether the coordinator may have written the marker when that transaction ended, by all but clocks. A
    marker written by hand lacks the epoch, or says what the coordinator decided, too."""
    return (
        entry.topic_partition in ended.partitions
        and marker.producer_epoch == ended.producer_epoch
        and marker.is_commit in (None, ended.is_commit)
    )


CLOCKS_MS: Final = 5_000
"""Difference that the clocks of two brokers may have: a marker carries the time of its partition's leader."""

CLOSE_MS: Final = 500
"""Difference between clocks that are maintained. A marker further off than this may have been written by hand, soon
after a decision."""


class Decision(NamedTuple):
    """A decision to end one or more transactions of a producer id. Their markers were written from `from_ms` to
    `until_ms` (None: they still are). `marker`: COMMIT or ABORT. `by_hand`: a person's decision, not a coordinator's.
    `marker_epoch`: the producer epoch of its markers; None: not known.
    """

    marker: MarkerType
    from_ms: int
    until_ms: int | None
    cause: Cause
    by_hand: bool = False
    marker_epoch: int | None = None

    def may_have_written(self, marker: MarkerType, epoch: int | None) -> bool:
        """Returns whether a marker may be of the decision, by all but its time."""
        is_its_epoch = None in (epoch, self.marker_epoch) or epoch == self.marker_epoch
        return self.marker == marker and is_its_epoch


class MarkerCause(NamedTuple):
    """The cause of a marker. `by_hand`: no coordinator decided it, a person or a tool wrote it to one partition."""

    cause: Cause
    by_hand: bool = False


BY_HAND_TEXT: Final = (
    "Ended by a marker that fits no decision of its coordinator: somebody wrote it to this partition by hand, with"
    " `kafka-transactions.sh abort` or a tool that sends WriteTxnMarkers, unless the clocks of the brokers differ by"
    f" more than {CLOCKS_MS // 1_000} s. The coordinator does not know of a marker by hand, so the other partitions of"
    " the transaction may have ended otherwise."
)


class KnownPeriod(NamedTuple):
    """The span of time of which the store has every decision."""

    from_ms: int
    until_ms: int


def cause_of_marker(
    marker: MarkerType, epoch: int | None, at_ms: int, decisions: Iterable[Decision], period: KnownPeriod | None
) -> MarkerCause | None:
    """Returns the cause of the decision that fits the marker best, ambiguous if it fits only because clocks may differ.

    `epoch`: the marker's producer epoch; None: not known. `decisions`: all known ones of its producer id; `period`: the
    span of time in which these are all there were.

    A marker that fits no decision and lies in `period` was written without the coordinator: by `kafka-transactions.sh
    abort`, or another tool that sends WriteTxnMarkers. None: the cause cannot be known.
    """
    fitting = [
        (distance_ms, -decision.from_ms, decision)
        for decision in decisions
        if decision.may_have_written(marker, epoch) and (distance_ms := _distance(decision, at_ms)) <= CLOCKS_MS
    ]
    if fitting:
        distance_ms, _, decision = min(fitting, key=lambda fit: fit[:2])
        cause = decision.cause if distance_ms <= CLOSE_MS else decision.cause._replace(confidence=Confidence.AMBIGUOUS)
        return MarkerCause(cause, decision.by_hand)
    if period is not None and period.from_ms <= at_ms <= period.until_ms:
        return MarkerCause(Cause(CauseCode.ADMIN, Confidence.LIKELY), by_hand=True)
    return None


def _distance(decision: Decision, at_ms: int) -> int:
    """Returns the time in ms between the marker and the span in which the decision's markers were written; 0 inside of
    it."""
    late = 0 if decision.until_ms is None else at_ms - decision.until_ms
    return max(decision.from_ms - at_ms, late, 0)
