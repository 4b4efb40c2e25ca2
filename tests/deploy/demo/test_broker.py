"""Tests that the embedded broker starts, keeps its data, freezes, and reports in one line why it cannot start."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from deploy.demo.broker import Broker, BrokerError, is_free
from service.kafka.errors import KafkaUnavailable
from tests.conftest import MakeBroker
from tests.helpers.brokers import connect, describe_transaction, free_port, kafka_transactions
from tests.helpers.waiting import wait_until
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_a_restart_keeps_transactions_and_kafkas_own_tool_sees_them(version: str, make_broker: MakeBroker) -> None:
    broker = make_broker(version, **{"transaction.state.log.num.partitions": "3"})
    create_topic(broker.bootstrap, "kept")
    transact(open_producer(broker.bootstrap, "kept"), "kept")
    before = wait_until(  # the commit returns before its markers are written
        lambda: describe_transaction(broker.bootstrap, "kept"),
        lambda reported: reported.state == "CompleteCommit",
        "the end of the transaction",
    )
    broker.stop()
    assert is_free(broker.port)
    broker.start()
    assert any("classes-java" in maps for maps in _maps_of(str(broker.directory))), (
        "the JVM does not use the archive of classes, so it starts slowly"
    )
    assert describe_transaction(broker.bootstrap, "kept") == before
    (reported,) = kafka_transactions(broker, "list")
    assert reported["TransactionalId"] == "kept"
    assert int(reported["ProducerId"]) == before.producer_id
    assert len(list(broker.data.glob("__transaction_state-*"))) == 3


def _maps_of(word: str) -> Iterator[str]:
    """Yields the text of /proc/PID/maps of each process with `word` in its command line."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word in (process / "cmdline").read_text():
                yield (process / "maps").read_text()


def test_a_frozen_broker_answers_again_after_resume(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.pause()
    with pytest.raises(KafkaUnavailable):
        connect(broker.bootstrap)
    broker.resume()
    connect(broker.bootstrap).close()


@pytest.mark.parametrize("which", [0, 1])
def test_a_taken_port_is_named(which: int, tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port + which)), pytest.raises(BrokerError) as e:
        Broker("4.3.1", port, tmp_path / "kafka").start()
    assert str(e.value) == f"port {port + which} is taken: the broker needs {port} and {port + 1}"
    assert not (tmp_path / "kafka").exists()


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_a_broker_that_dies_at_the_start_shows_its_error(version: str, tmp_path: Path) -> None:
    broker = Broker(version, free_port(), tmp_path / "kafka", {"metric.reporters": "no.such.Reporter"})
    with pytest.raises(BrokerError, match=r"(?s)ended while it started: .*no\.such\.Reporter"):
        broker.start()


def test_a_setting_that_kafka_does_not_take_is_named(tmp_path: Path) -> None:
    broker = Broker("4.3.1", free_port(), tmp_path / "kafka", {"log.retention.ms": "never"})
    with pytest.raises(BrokerError, match=r"log\.retention\.ms"):
        broker.start()
