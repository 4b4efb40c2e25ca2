"""A store in which everything that alerts look at is there, and the page of metrics that a service makes of it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as parse

from service.domain.partitions.blocked_groups import GroupOffset
from service.domain.transaction_log import states
from service.store.writers.groups import GroupWriter
from tests.helpers.partitions import LSO, WithPartitions, hanging_finding, moving_partition, stalled_partition
from tests.helpers.stores import NOW_MS, Id, client_of, open_id

NOT_OURS = {"up": [{"job": "txnscope", "instance": "a:8080"}]}
"""Prometheus makes it of every scrape."""


def seed(directory: Path) -> WithPartitions:
    cluster = WithPartitions(f"sqlite:///{directory / 'store.db'}")
    cluster.read([Id(b"pay"), open_id("ship", 90_000), Id(b"stuck", state=states.PREPARE_COMMIT)])
    cluster.look(stalled_partition(), moving_partition(1))
    cluster.see(hanging_finding(owner="team-a"))
    GroupWriter(cluster.engine, cluster.lease).replace([GroupOffset("billing", "orders", 0, LSO, 2, False)], NOW_MS)
    return cluster


def exported(cluster: WithPartitions) -> dict[str, list[dict[str, str]]]:
    """Labels of every series, by the name it has in Prometheus."""
    with client_of(cluster.url) as client:
        text = client.get("/metrics").text
    found = defaultdict(list, NOT_OURS)
    for family in parse(text):
        for sample in family.samples:
            found[sample.name].append(dict(sample.labels))
    return dict(found)
