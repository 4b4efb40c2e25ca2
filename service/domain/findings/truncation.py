"""Counts, by kind, what bounds leave out: findings that are not opened, and data that is not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from service.domain.findings.catalogue import EVENTS
from service.domain.findings.finding import Finding, Key, RoundResult
from service.domain.findings.kinds import QUIET_MS, Kind
from service.domain.findings.lifecycle import OmittedObservation, omitted


class Truncation:
    """Counts, round by round, the observations that have no finding because of a bound. A condition counts until a
    round that covers it does not show it any more. An event counts for as long as its finding would be open."""

    def __init__(self) -> None:
        self._omitted: dict[Key, OmittedObservation] = {}
        self._unread: dict[Kind, int] = {}

    def apply_round(self, known: Mapping[Key, Finding], result: RoundResult, now_ms: int) -> None:
        """Applies one round. `known`: the findings after the changes of the round."""
        self._omitted = {
            key: one
            for key, one in self._omitted.items()
            if not (key in known and known[key].is_open) and not _is_over(key, one, result, now_ms)
        }
        self._omitted |= omitted(known, result, now_ms)
        self._unread |= result.unread

    def counts(self) -> dict[Kind, int]:
        """Returns how many of each kind are left out; kinds without any are absent."""
        found = Counter(self._unread)
        found.update(kind for kind, _ in self._omitted)
        return {kind: number for kind, number in sorted(found.items()) if number}


def _is_over(key: Key, one: OmittedObservation, result: RoundResult, now_ms: int) -> bool:
    """Returns whether the condition or event that was left out is over: an event is quiet, or the round covers the
    condition and would have shown it again."""
    kind, subject = key
    if kind in EVENTS:
        return now_ms - one.seen_ms >= QUIET_MS
    if kind not in result.kinds:
        return False
    return result.resolutions is not None or result.covers(subject, one.log_partition)
