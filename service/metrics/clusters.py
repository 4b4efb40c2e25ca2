"""What a cluster is."""

from __future__ import annotations

from collections.abc import Iterator

from service.metrics import catalogue
from service.metrics.series import Series
from service.store.queries.metrics import ClusterFacts


def clusters(facts: ClusterFacts) -> Iterator[Series]:
    """One series, always 1."""
    features = facts.description.get("features") or {}
    levels = (str(features.get(name, "")) for name in ("transaction.version", "metadata.version"))
    yield Series(catalogue.CLUSTER_INFO, (facts.kafka_cluster_id, *levels), 1)
