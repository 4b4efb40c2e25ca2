"""Tests that the store returns the canary's data about coordinators as they were stored, and that the token of a
store's canary never changes."""

from __future__ import annotations

import pytest

from service.store import canary
from tests.helpers.canaries import GONE, NO_REPLICAS, coordinator, store_canary
from tests.helpers.stores import NOW_MS, SeededCluster

pytestmark = pytest.mark.cluster(of=SeededCluster)


def test_what_is_stored_of_a_coordinator_is_read_again(cluster: SeededCluster) -> None:
    some = [coordinator(1, 12, 14), coordinator(2, 12, failure=NO_REPLICAS), coordinator(3, failure=GONE).idle(NOW_MS)]
    store_canary(cluster, some)
    with cluster.engine.begin() as connection:
        assert canary.read_coordinators(connection, cluster.id) == some
        later = coordinator(1, 12, 14, 15)
        canary.save_coordinator(connection, cluster.id, later)
        canary.forget_coordinators(connection, cluster.id, [2, 3])
        assert canary.read_coordinators(connection, cluster.id) == [later]


def test_a_store_gives_its_canary_one_token_for_ever(cluster: SeededCluster) -> None:
    with cluster.engine.begin() as connection:
        assert canary.find_canary(connection, cluster.id) is None
        first = canary.begin(connection, cluster.id, "txnscope-canary", 10_000, NOW_MS)
        assert canary.begin(connection, cluster.id, "eu.txnscope-canary", 5_000, NOW_MS + 1) == first
        canary.note_alive(connection, cluster.id, NOW_MS + 2, 3, "no broker answers", is_running=False)
        found = canary.find_canary(connection, cluster.id)
    assert found == canary.Canary(first, "eu.txnscope-canary", 5_000, NOW_MS + 2, False, 3, "no broker answers")
