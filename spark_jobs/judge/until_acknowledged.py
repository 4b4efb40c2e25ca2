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
            torn(transaction, context.rules.of(transaction.name, transaction.topics))
            for transaction in marker_audit.torn(connection, self._cluster_id)
        )
        return self._seen

    def reported(self, known: Mapping[Key, Finding]) -> list[int]:
        """Returns the sequence numbers of the torn transactions that the last `observe` found, and that a stored
        finding has counted. A second call returns an empty list. `known`: the stored findings."""
        counted = []
        for observation in self._seen:
            finding = known.get((observation.kind, observation.subject))
            counted += [
                o.sequence
                for o in observation.occurrences
                if finding is not None and o.sequence <= finding.life.counted_to
            ]
        self._seen = ()
        return counted


def acknowledged(connection: Connection, cluster_id: int, known: Mapping[Key, Finding]) -> list[RoundResult]:
    """Returns a round result for each kind with findings that are still open although they were acknowledged. The
    result resolves these findings."""
    waiting = [finding for finding in known.values() if finding.kind in UNTIL_ACKNOWLEDGED and finding.is_open]
    given = read_acknowledgements(connection, cluster_id, waiting)
    results = []
    for kind in sorted({finding.kind for finding in waiting if finding.id in given}):
        ended = {
            finding.subject: Resolution.ACKNOWLEDGED
            for finding in waiting
            if finding.id in given and finding.kind == kind
        }
        results.append(RoundResult((), frozenset({kind}), resolutions=ended))
    return results
