"""Fixtures with the dashboards, and with a store that has data for everything that dashboards and alerts query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from service.domain.application_rules import Assigned
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.transaction_log import states
from service.metrics.exports import Signal
from service.store.receivers import add_receiver
from service.store.writers.applications import ApplicationWriter
from service.store.writers.groups import GroupWriter
from service.store.writers.history import count_detection
from tests.dashboards.boards import FILES, Json, load
from tests.helpers.canaries import NO_REPLICAS, coordinator, store_canary
from tests.helpers.partitions import LSO, WithPartitions, hanging_finding, moving_partition, stalled_partition
from tests.helpers.stores import NOW_MS, Id, client_of, open_id

Series = dict[str, list[dict[str, str]]]
"""A mapping from each metric's name to the labels of each of its series."""
NOT_OURS: Series = {"up": [{"job": "txnscope", "instance": "a:8080"}]}
"""Series that Prometheus itself adds for every scrape."""


@pytest.fixture(params=FILES)
def board(request: pytest.FixtureRequest) -> Json:
    return load(request.param)


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithPartitions]:
    cluster = WithPartitions(f"sqlite:///{tmp_path_factory.mktemp('seeded') / 'store.db'}")
    cluster.read([Id(b"pay"), open_id("ship", 90_000, "orders"), Id(b"stuck", state=states.PREPARE_COMMIT)])
    ApplicationWriter(cluster.engine, cluster.lease).assign({b"ship": Assigned("shop")}, NOW_MS)
    cluster.look(stalled_partition(), moving_partition(1))
    cluster.see(hanging_finding(owner="team-a"))
    GroupWriter(cluster.engine, cluster.lease).replace([GroupOffset("billing", "orders", 0, LSO, 2, False)], NOW_MS)
    with cluster.engine.begin() as connection:
        count_detection(connection, cluster.id, NOW_MS - 1_000, NOW_MS)
        add_receiver(connection, "pager", "alertmanager", 0)
    store_canary(cluster, [coordinator(1, 12, 14), coordinator(2, 9, failure=NO_REPLICAS)])
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def series(seeded: WithPartitions) -> Series:
    """Returns NOT_OURS, and the series on the metrics page that a service renders from the store."""
    with client_of(seeded.url) as client:
        exports = client.app.state.txnscope.metrics.exports  # type: ignore[attr-defined]
        exports.expect(Signal.METRICS)
        exports.expect(Signal.TRACES)
        client.get("/api/v1/clusters")
        text = client.get("/metrics").text
    found = defaultdict(list, NOT_OURS)
    for family in parse(text):
        for sample in family.samples:
            found[sample.name].append(dict(sample.labels))
    return dict(found)
