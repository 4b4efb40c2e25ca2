"""Tests the canary on one real broker: its transactions run, are measured, and leave no records behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from service.domain.canary.targets import ID_PREFIX
from service.kafka.cluster import topic_layout
from service.kafka.offsets import EARLIEST, LATEST, list_offsets
from service.kafka.settings import ClientSettings
from tests.conftest import MakeBroker
from tests.helpers.brokers import connect, describe_transaction, on_broker, transactional_ids
from tests.helpers.waiting import LIMIT_S, wait_until
from tests.integration.canary_lab import TOPIC, Watched, running_canary, store_of
from tests.integration.producers import open_producer

pytestmark = pytest.mark.broker

ENDS_WITHIN_S = 10.0


def settings_of(broker: Broker) -> ClientSettings:
    return ClientSettings.load(broker.bootstrap, None)


@pytest.fixture
def watched(broker: Broker, tmp_path: Path) -> Iterator[Watched]:
    with store_of(broker.bootstrap, tmp_path) as watched:
        yield watched


def log_of(bootstrap: str) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the start offsets and the end offsets of the canary's topic, both keyed by partition."""
    with connect(bootstrap) as client:
        layout = topic_layout(client, TOPIC)
        assert layout is not None
        return list_offsets(client, layout, EARLIEST).found, list_offsets(client, layout, LATEST).found


@on_broker("4.3.1")
def test_rounds_run_are_measured_and_leave_nothing_behind(broker: Broker, watched: Watched) -> None:
    open_producer(broker.bootstrap, "creates the transaction log")
    with running_canary(watched, settings_of(broker)) as canary:
        (coordinator,) = watched.wait_for_rounds(3, 1).values()
        assert coordinator.transactional_id is not None
        assert coordinator.transactional_id.startswith(ID_PREFIX)
        assert sum(coordinator.commits.counts) == sum(coordinator.visibles.counts) == coordinator.rounds
        assert coordinator.init_us is not None
        begun = time.monotonic()
        canary.stop()
        canary.join(LIMIT_S)
        assert time.monotonic() - begun < ENDS_WITHIN_S
    starts, ends = log_of(broker.bootstrap)
    assert starts == ends
    assert ends[0] >= 2 * coordinator.rounds  # a record and a marker each
    assert describe_transaction(broker.bootstrap, coordinator.transactional_id).state == "CompleteCommit"
    ended = watched.canary()
    assert ended is not None
    assert not ended.is_running
    with running_canary(watched, settings_of(broker)):
        (later,) = watched.wait_for_rounds(1, 1).values()
    assert later.transactional_id == coordinator.transactional_id
    assert later.rounds > coordinator.rounds
    ids = [name for name in transactional_ids(broker.bootstrap) if name.startswith(ID_PREFIX)]
    assert ids == [coordinator.transactional_id]


def test_a_cluster_without_a_transaction_log_gets_none(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker()
    with store_of(broker.bootstrap, tmp_path) as watched, running_canary(watched, settings_of(broker)):
        wait_until(
            watched.trouble,
            lambda why: "list no topic __transaction_state" in (why or ""),
            "the reason why the canary waits",
        )
        assert watched.coordinators() == {}
        open_producer(broker.bootstrap, "the first one")
        watched.wait_for_rounds(1, 1)
        assert watched.trouble() is None
