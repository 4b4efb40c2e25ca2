"""Why a marker was written: the decision of a coordinator, or of a person, that was under way at its time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from service.domain.transaction_log.causes import ADMIN, AMBIGUOUS, LIKELY, Cause

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
