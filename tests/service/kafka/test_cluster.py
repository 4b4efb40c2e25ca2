"""Metadata of a cluster, from real brokers."""

from __future__ import annotations

import pytest

from deploy.demo.broker import Broker
from service.domain.releases import release_of
from service.kafka import cluster
from tests.helpers.brokers import connect

pytestmark = pytest.mark.broker


def test_each_broker_tells_its_release(broker: Broker) -> None:
    with connect(broker.bootstrap) as client:
        reported = cluster.describe(client)
        assert cluster.broker_ids(client) == [1]
    (one,) = reported["brokers"]
    assert (one["id"], one["port"]) == (1, broker.port)
    assert release_of(one["newest_metadata_version"]) == broker.version.rpartition(".")[0]
    assert reported["features"]["metadata.version"] <= one["newest_metadata_version"]
    assert {config["source"] for config in reported["configs"].values()} == {"broker"}
