"""Tests the abilities of each version of Kafka, by trials on a broker with default settings and by its ApiVersions
response. docs/compatibility.md and `txnscope doctor` use the results."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest
from confluent_kafka import Consumer
from kafka.protocol.admin import ListTransactionsRequest

from deploy.demo.broker import Broker
from deploy.demo.workload.raw_producer import Connection, RawProducer, Refused
from deploy.demo.workload.verification import GUARDED, verification_off
from service.kafka.client import KafkaClient
from service.kafka.permissions import Versions, versions
from tests.conftest import MakeBroker
from tests.helpers.brokers import WITH_TV2, connect, on
from tests.helpers.waiting import wait_until, wait_until_equal
from tests.integration.hang_lab import TOOL
from tests.integration.producers import NULL_LOGGER, create_topic, open_producer, transact
from tests.lab.asking import open_on
from tests.lab.hangs import Hang, an_hour_ago, late_write, never_added, offsets_never_added, old_producer
from tests.matrix.recorder import ABILITIES

pytestmark = pytest.mark.broker

APIS: Final = {
    "Produce": 0,
    "AddPartitionsToTxn": 24,
    "EndTxn": 26,
    "WriteTxnMarkers": 27,
    "DescribeProducers": 61,
    "DescribeTransactions": 65,
    "ListTransactions": 66,
    "ConsumerGroupDescribe": 69,
    "ShareGroupDescribe": 77,
    "StreamsGroupDescribe": 89,
    "DescribeShareGroupOffsets": 90,
}
"""API keys of requests. What txnscope can do depends on which of these requests the broker supports."""
FEATURES: Final = ("metadata.version", "transaction.version", "group.version", "share.version", "streams.version")
NODE: Final = 1
JOINS_WITHIN_S: Final = 30.0
NEW_GROUPS: Final = {"consumer": "group.version", "share": "share.version", "streams": "streams.version"}
"""A mapping from kind of group to the feature that it needs (KIP-848, KIP-932, KIP-1071)."""


@on("4.3.1")
def test_what_this_version_can(
    version: str, make_broker: MakeBroker, record_property: Callable[[str, object], None]
) -> None:
    broker = make_broker(version)
    create_topic(broker.bootstrap, "tried", 4)
    transact(open_producer(broker.bootstrap, "before"), "tried")
    with Connection(broker.bootstrap, threading.Event()) as connection, connect(broker.bootstrap) as client:
        reported = versions(client, NODE)
        found: dict[str, bool] = {
            "filters_by_duration": _lists(client, reported, 1, duration_filter=1),
            "filters_by_pattern": _lists(client, reported, 2, transactional_id_pattern="before"),
            "refuses_late_writes": _refuses(lambda: late_write(old_producer(connection, "late"), "tried", 0)),
            "refuses_unlisted_writes": _refuses(lambda: never_added(old_producer(connection, "unlisted"), "tried", 1)),
            "refuses_unlisted_offsets": _refuses(
                lambda: offsets_never_added(old_producer(connection, "offsets"), "readers", {("tried", 0): 1})
            ),
            "new_epoch_per_transaction": _ends_in_a_new_epoch(connection, reported),
            "consumer_groups": _joins(broker.bootstrap, reported),
            "share_groups": _has_groups(reported, "share", "ShareGroupDescribe"),
            "streams_groups": _has_groups(reported, "streams", "StreamsGroupDescribe"),
            "tool_aborts": _tool_finds_and_aborts(broker, connection),
            "tool_terminates": "forceTerminateTransaction" in _tool_help(broker),
        }
    features = {n: [reported.supported[n], reported.finalized.get(n, 0)] for n in FEATURES if n in reported.supported}
    apis = {name: reported.apis[key] for name, key in APIS.items() if key in reported.apis}
    record_property(ABILITIES, {"abilities": found, "features": features, "apis": apis})
    assert apis.keys() >= {"WriteTxnMarkers", "DescribeProducers", "DescribeTransactions", "ListTransactions"}
    assert found["new_epoch_per_transaction"] == (version in WITH_TV2)
    assert found["tool_aborts"]


def _lists(client: KafkaClient, reported: Versions, version: int, **filters: Any) -> bool:
    if reported.apis[APIS["ListTransactions"]] < version:
        return False
    request = ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], min_version=version, max_version=version, **filters
    )
    return [state.transactional_id for state in client.ask(request, NODE).transaction_states] == ["before"]


def _refuses(write: Callable[[], Hang]) -> bool:
    """Returns True if the broker's verification guard refuses the write, and False if the write leaves a hanging
    transaction. Raises Refused if the write fails for another reason."""
    try:
        write()
    except Refused as refused:
        if refused.code in GUARDED:
            return True
        raise
    return False


def _ends_in_a_new_epoch(connection: Connection, reported: Versions) -> bool:
    if reported.finalized.get("transaction.version", 0) < 2:
        return False
    producer = RawProducer(connection, "new-epoch")
    producer.init()
    before = producer.producer_epoch
    producer.produce("tried", 3, [b"x"])
    producer.end(commit=True)
    return producer.producer_epoch == before + 1


def _has_groups(reported: Versions, kind: str, described_by: str) -> bool:
    return APIS[described_by] in reported.apis and reported.finalized.get(NEW_GROUPS[kind], 0) > 0


def _joins(bootstrap: str, reported: Versions) -> bool:
    """Returns False if the broker does not have the new protocol of consumer groups (KIP-848), and True once a member
    that uses the protocol gets a partition. Raises AssertionError if that takes longer than JOINS_WITHIN_S."""
    if not _has_groups(reported, "consumer", "ConsumerGroupDescribe"):
        return False
    config = {"bootstrap.servers": bootstrap, "group.id": "new", "group.protocol": "consumer", "logger": NULL_LOGGER}
    one = Consumer(config)
    try:
        one.subscribe(["tried"])
        wait_until(
            lambda: (one.poll(0.1), one.assignment())[1], bool, "a partition assigned to the member", JOINS_WITHIN_S
        )
    finally:
        one.close()
    return True


def _tool_finds_and_aborts(broker: Broker, connection: Connection) -> bool:
    """Lets Kafka's own tool find a hanging transaction, and end it with the command that findings advise. Returns True.
    Raises AssertionError if the transaction is not found or does not end. Raises CalledProcessError or TimeoutExpired
    if a command of the tool fails."""
    producer = old_producer(connection, "found")
    producer.add("tried", 2)
    producer.produce("tried", 2, [b"in time"])
    producer.end(commit=True)
    late = [b"late"]
    try:
        start = producer.produce("tried", 2, late, timestamp_ms=an_hour_ago())
    except Refused:
        with verification_off(connection):
            start = producer.produce("tried", 2, late, timestamp_ms=an_hour_ago(), retry_on=GUARDED)
    place = ("--topic", "tried", "--partition", "2")
    found = broker.tool(TOOL, "--bootstrap-server", broker.bootstrap, "find-hanging", "--topic", "tried")
    assert str(producer.producer_id) in found
    broker.tool(TOOL, "--bootstrap-server", broker.bootstrap, "abort", *place, "--start-offset", str(start))
    wait_until_equal(lambda: open_on(connection, "tried", 2), [], "the open transactions after the abort by the tool")
    return True


def _tool_help(broker: Broker) -> str:
    command = broker.tool_command(TOOL, "--help")
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
