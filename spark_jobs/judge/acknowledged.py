"""Resolves the findings that somebody acknowledged."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from service.domain.findings import kinds
from service.domain.findings.finding import Finding, Key
from service.domain.findings.lifecycle import RoundResult
from service.store.acknowledgements import read_acknowledgements


def acknowledged(connection: Connection, cluster_id: int, known: Mapping[Key, Finding]) -> list[RoundResult]:
    """Returns a round result for each kind that has acknowledged findings. Asks the store only if one is open."""
    waiting = [one for one in known.values() if one.kind in kinds.UNTIL_ACKNOWLEDGED and one.is_open]
    given = read_acknowledgements(connection, cluster_id, waiting)
    results = []
    for kind in sorted({one.kind for one in waiting if one.id in given}):
        ended = {one.subject: kinds.ACKNOWLEDGED for one in waiting if one.id in given and one.kind == kind}
        results.append(RoundResult((), frozenset({kind}), resolutions=ended))
    return results
