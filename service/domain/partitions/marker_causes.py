"""Finds the decision that a marker carries out: the decision of a coordinator, or of a person who wrote the marker by
hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from service.domain.partitions.facts import MarkerType
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence

CLOCKS_MS: Final = 5_000
"""Allowed difference (ms) between the clocks of two brokers: a marker has the time of its partition's leader, and not
of the coordinator."""

CLOSE_MS: Final = 500
"""Longest difference (ms) between synchronised clocks. If the times of a decision and of a marker differ by more,
somebody may have written the marker by hand."""


class Decision(NamedTuple):
    """A decision to end one or more transactions of a producer id. The markers of the decision were written from
    `from_ms` to `until_ms` (None: perhaps not all are written yet). `marker`: COMMIT or ABORT. `by_hand`: True if a
    person decided, False if a coordinator did. `marker_epoch`: the producer epoch of the markers; None: not known."""

    marker: MarkerType
    from_ms: int
    until_ms: int | None
    cause: Cause
    by_hand: bool = False
    marker_epoch: int | None = None

    def may_have_written(self, marker: MarkerType, epoch: int | None) -> bool:
        """Returns whether outcome and epoch allow that the marker carries out the decision. Times are not compared."""
        is_its_epoch = None in (epoch, self.marker_epoch) or epoch == self.marker_epoch
        return self.marker == marker and is_its_epoch


class MarkerCause(NamedTuple):
    """The cause of a marker. `by_hand`: a person or a tool wrote the marker to one partition, without a decision of a
    coordinator."""

    cause: Cause
    by_hand: bool = False


BY_HAND_TEXT: Final = (
    "Ended by a marker that fits no decision of its coordinator: somebody wrote it to this partition by hand, with"
    " `kafka-transactions.sh abort` or a tool that sends WriteTxnMarkers, unless the clocks of the brokers differ by"
    f" more than {CLOCKS_MS // 1_000} s. The coordinator does not know of a marker that was written by hand, so the"
    " other partitions of the transaction may have another outcome."
)


class KnownPeriod(NamedTuple):
    """The span of time for which the store has every decision."""

    from_ms: int
    until_ms: int


def cause_of_marker(
    marker: MarkerType, epoch: int | None, at_ms: int, decisions: Iterable[Decision], period: KnownPeriod | None
) -> MarkerCause | None:
    """Returns the cause of the marker: the cause of the decision that fits the marker best. The confidence is AMBIGUOUS
    if that decision fits only on the assumption that clocks differ by more than CLOSE_MS.

    `epoch`: the marker's producer epoch; None: not known. `decisions`: all known decisions of its producer id;
    `period`: the span of time for which `decisions` is complete; None if there is none.

    A marker that fits no decision and lies in `period` was probably (LIKELY) written without the coordinator: by
    `kafka-transactions.sh abort`, or by another tool that sends WriteTxnMarkers. Returns None if the cause cannot be
    known.
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
    """Returns the time (ms) from the marker to the span in which the decision's markers were written; 0 if the marker
    lies in that span."""
    late = 0 if decision.until_ms is None else at_ms - decision.until_ms
    return max(decision.from_ms - at_ms, late, 0)
