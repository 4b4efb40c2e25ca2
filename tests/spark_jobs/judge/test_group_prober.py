"""Tests of the list of groups that the prober builds from the answers of the brokers."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from service.kafka import cluster
from service.kafka.errors import KafkaUnavailable
from service.kafka.groups import ListedGroup
from spark_jobs.judge import group_prober
from spark_jobs.judge.group_prober import GroupProber

NOW_MS = 1_790_000_000_000


def test_an_unresponsive_broker_keeps_its_groups_a_removed_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = {1: "billing", 2: "shipping"}
    silent: set[int] = set()

    def listed(_client: object, node: int) -> list[ListedGroup]:
        if node in silent:
            raise KafkaUnavailable("broker does not answer")
        return [ListedGroup(groups[node], "consumer", "Stable")]

    monkeypatch.setattr(group_prober, "list_groups", listed)
    monkeypatch.setattr(cluster, "broker_ids", lambda _client: list(groups))
    prober = GroupProber(Mock(), Mock(), 1, Mock())
    for silent_now, known in (((), {"billing": 1, "shipping": 2}), ((2,), {"billing": 1, "shipping": 2})):
        silent |= set(silent_now)
        prober._list(Mock(), NOW_MS)
        assert prober._schedule.coordinators == known
    del groups[2]
    prober._list(Mock(), NOW_MS)
    assert prober._schedule.coordinators == {"billing": 1}
