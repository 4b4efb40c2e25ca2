"""How many findings there are, how many were left out, and how often what they rest on was contradictory."""

from __future__ import annotations

from collections.abc import Iterator

from service.domain.findings.kinds import KINDS, statuses_of
from service.metrics import catalogue
from service.metrics.series import Series
from service.store.queries.metrics import ClusterFacts
from service.store.writers.counters import CONTRADICTIONS


def findings(facts: ClusterFacts) -> Iterator[Series]:
    """Every kind and status, also at 0."""
    for kind in KINDS:
        for status in statuses_of(kind):
            yield Series(catalogue.FINDINGS, (kind, status), facts.findings.get((kind, status), 0))
    for kind in KINDS:
        yield Series(catalogue.FINDINGS_TRUNCATED, (kind,), facts.truncated.get(kind, 0))
    yield Series(catalogue.CONTRADICTIONS, (), facts.counters.get((CONTRADICTIONS, ""), 0))
