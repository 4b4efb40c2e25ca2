"""Observes and ends findings that stay until somebody acknowledges them: reads torn transactions, and resolves findings
that were acknowledged."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, Key, Observation, RoundResult
from service.domain.findings.kinds import Resolution
from service.domain.findings.torn import torn
from service.store.finding_marks import read_acknowledgements
from service.store.queries import marker_audit


class TornObserver:
    """Reads torn transactions, and reports each until a finding has counted it. Only then may the store forget the
    transaction."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._seen: tuple[Observation, ...] = ()

    def observe(self, connection: Connection, context: Context) -> tuple[Observation, ...]:
        self._seen = tuple(
            torn(one, context.rules.of(one.name, one.topics)) for one in marker_audit.torn(connection, self._cluster_id)
        )
        return self._seen

    def reported(self, known: Mapping[Key, Finding]) -> list[int]:
        """Returns the sequence numbers of the torn transactions that the last `observe` found, and that a stored
        finding has counted. A second call returns an empty list. `known`: the stored findings."""
        counted = []
        for one in self._seen:
            finding = known.get((one.kind, one.subject))
            counted += [
                o.sequence for o in one.occurrences if finding is not None and o.sequence <= finding.life.counted_to
            ]
        self._seen = ()
        return counted


def acknowledged(connection: Connection, cluster_id: int, known: Mapping[Key, Finding]) -> list[RoundResult]:
    """Returns a round result for each kind with findings that are still open although they were acknowledged. The
    result resolves these findings."""
    waiting = [one for one in known.values() if one.kind in UNTIL_ACKNOWLEDGED and one.is_open]
    given = read_acknowledgements(connection, cluster_id, waiting)
    results = []
    for kind in sorted({one.kind for one in waiting if one.id in given}):
        ended = {one.subject: Resolution.ACKNOWLEDGED for one in waiting if one.id in given and one.kind == kind}
        results.append(RoundResult((), frozenset({kind}), resolutions=ended))
    return results
