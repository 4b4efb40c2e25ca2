"""Tests a first start of txnscope on a cluster where a transaction already hangs. If the log was never cleaned, all
decisions are known."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from deploy.demo.workload.raw_producer import Connection
from service.kafka.client import KafkaClient
from service.kafka.producers import describe_owners
from service.kafka.settings import ClientSettings
from tests.helpers.brokers import SKIPS_THE_LOST, Cluster, free_port, on, on_those
from tests.helpers.waiting import wait_until_equal
from tests.integration.hang_lab import hang_lab
from tests.integration.producers import create_topic
from tests.integration.test_lab_leaders import BACK_SOON
from tests.lab.hangs import UNGUARDED, Hang, late_write, never_added, old_producer, orphan_producer
from tests.lab.lost_leaders import still_hangs, stopped_leader

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

SHORT_LIVED = UNGUARDED | {
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}


@on("3.9.2")
def test_hangs_from_before_the_first_start_are_named_and_decided(version: str, tmp_path: Path) -> None:
    with Broker(version, free_port(), tmp_path / "kafka", SHORT_LIVED) as broker:
        with Connection(broker.bootstrap, threading.Event()) as connection:
            create_topic(broker.bootstrap, "first-day", 4)
            hangs = [
                late_write(old_producer(connection, "late-after-abort"), "first-day", 0),
                late_write(old_producer(connection, "late-after-commit"), "first-day", 1, commit=True),
                never_added(old_producer(connection, "never-added"), "first-day", 2),
                never_added(orphan_producer(connection, "nobody"), "first-day", 3),
            ]
        wait_until_equal(
            lambda: _known(broker.bootstrap, hangs), set(), "the hanging producer ids that coordinators still know"
        )
        with hang_lab(broker, tmp_path) as here:
            for hang in hangs:
                row = here.wait_until_confirmed(hang)
                assert row.possible == ["none"], row.proofs
                assert row.proofs


@on_those(SKIPS_THE_LOST, "4.3.1")
def test_a_commit_skipped_before_the_first_start_is_decided(version: str, tmp_path: Path) -> None:
    with Cluster(version, tmp_path / "kafka", BACK_SOON) as brokers:
        with stopped_leader(brokers, "skipped") as torn:
            pass
        assert still_hangs(brokers, torn)
        with hang_lab(brokers.nodes[1], tmp_path, brokers.bootstrap) as here:
            row = here.wait_until_confirmed(torn.hang())
            assert row.possible == ["commit"], row.proofs


def _known(bootstrap: str, hangs: list[Hang]) -> set[int]:
    with KafkaClient(ClientSettings.load(bootstrap, None)) as client:
        return set(describe_owners(client, [hang.producer_id for hang in hangs]))
