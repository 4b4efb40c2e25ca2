"""Tests of the lease under which a canary runs."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from service.canary.canary import Canary
from service.canary.coordinator_rounds import Clocks
from service.canary.layout_watch import LayoutWatch
from service.canary.running import Plan
from service.clock import wall_clock_ms
from service.kafka.errors import KafkaUnavailable
from service.kafka.settings import ClientSettings
from service.store import lease
from service.store.lease import canary_lease
from tests.helpers.stores import SeededCluster
from tests.helpers.waiting import LIMIT_S, wait_until


def test_a_canary_whose_brokers_do_not_answer_keeps_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the canary lost its lease, a second canary could begin under the same ids and fence the first one. A failure
    would then be reported, although no broker has failed."""
    answered = threading.Event()

    def read(_: LayoutWatch) -> None:
        answered.wait(LIMIT_S)
        raise KafkaUnavailable("no broker answers")

    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    monkeypatch.setattr(LayoutWatch, "read", read)
    monkeypatch.setattr(Canary, "_find_cluster", lambda _: cluster.id)
    plan = Plan(ClientSettings(("127.0.0.1:1",)), "txnscope-canary", 1_000)
    canary = Canary(cluster.engine, plan, Clocks(wall_clock_ms, time.monotonic))
    canary.start()
    try:
        seen = [lease.newest_renewal(cluster.engine, canary_lease(cluster.id))]
        for _ in range(3):
            wait_until(
                lambda: lease.newest_renewal(cluster.engine, canary_lease(cluster.id)),
                lambda newest: newest not in seen,
                "a renewal",
            )
            seen.append(lease.newest_renewal(cluster.engine, canary_lease(cluster.id)))
    finally:
        answered.set()
        canary.stop()
        canary.join(LIMIT_S)
        cluster.close()
