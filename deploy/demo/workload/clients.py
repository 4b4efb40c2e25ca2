"""Makes the clients of librdkafka that the applications use: without logs, with long retries, and with a wait for every
acknowledgement."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deploy.demo.workload.bookkeeping import Participant

PATIENCE_S = 600.0
"""Seconds for which a failing call is repeated: longer than a restart of the broker."""
_TRY_S = 1.0
"""Timeout (s) of one call: short, because a thread cannot be stopped during a call."""
_NO_BROKER = ("_TRANSPORT", "_TIMED_OUT")
"""Errors of a call that found no broker."""

# fenced producers report a "fatal error" on stderr, at a level that no setting of librdkafka silences
_null_logger = logging.getLogger("deploy.demo.workload.librdkafka")
_null_logger.addHandler(logging.NullHandler())
_null_logger.propagate = False


class Stopped(Exception):
    """The workload was asked to stop while it waited."""


class Undelivered(Exception):
    """Records of an open transaction were not acknowledged within PATIENCE_S."""


class Refused(Exception):
    """The broker refused a record of an open transaction, which now can only be aborted."""


def producer(bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    """Returns a transactional producer, not initialised yet. The coordinator aborts its transactions after `timeout_ms`
    (at least 1000)."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 0,
            "reconnect.backoff.max.ms": 1_000,
        },
        logger=_null_logger,
    )


def consumer(bootstrap: str, group: str) -> Consumer:
    """Returns a consumer that reads only committed records, and never commits offsets by itself."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "reconnect.backoff.max.ms": 1_000,
        },
        logger=_null_logger,
    )


def send(open_producer: Producer, records: Iterable[tuple[Participant, bytes]], stop: threading.Event) -> None:
    """Produces to the given partitions and waits for all acknowledgements, so that the transaction has all partitions.

    The wait is needed because librdkafka drops records at an abort if they are not sent yet. Then the transaction would
    have fewer records than are counted. Raises Refused, Undelivered, Stopped.
    """
    refused: list[str] = []

    def delivered(error: Any, _message: Message) -> None:
        if error is not None:
            refused.append(str(error))

    for (topic, partition), value in records:
        open_producer.produce(topic, value=value, partition=partition, on_delivery=delivered)
    give_up = time.monotonic() + PATIENCE_S
    while open_producer.flush(0.2):
        raise_if_stopped(stop)
        if time.monotonic() > give_up:
            raise Undelivered(f"nothing acknowledged in {PATIENCE_S:.0f} s")
    if refused:
        raise Refused(refused[0])


def may_pass(error: KafkaException) -> bool:
    """Returns whether the failed call may succeed if it is repeated."""
    return bool(error.args[0].retriable()) or error.args[0].name() in _NO_BROKER


def retry(stop: threading.Event, call: Callable[..., Any], *arguments: Any, patience_s: float = PATIENCE_S) -> Any:
    """Repeats `call`, such as init_transactions, until it succeeds, and returns its result. `call` gets a timeout after
    `arguments`.

    After a retriable error, and if no broker answers, the call is repeated; the repeated call continues the former
    call. If `stop` is set, raises Stopped instead of repeating the call. Raises KafkaException for any other error, and
    for any error after `patience_s`.
    """
    give_up = time.monotonic() + patience_s
    while True:
        try:
            return call(*arguments, _TRY_S)
        except KafkaException as e:
            if not may_pass(e) or time.monotonic() > give_up:
                raise
        raise_if_stopped(stop)


def raise_if_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise Stopped


def create_topics(bootstrap: str, partitions: dict[str, int]) -> None:
    """Creates topics. Topics that exist already stay as they are. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_null_logger)
    wanted = [NewTopic(name, num_partitions=count, replication_factor=1) for name, count in partitions.items()]
    for created in admin.create_topics(wanted, operation_timeout=15).values():
        try:
            created.result(20)
        except KafkaException as e:
            if e.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise


def partition_count(bootstrap: str, topic: str, stop: threading.Event) -> int:
    """Returns the number of partitions; 0 if the topic does not exist or cannot be read. If the broker restarts, waits
    until it answers again. Raises KafkaException, Stopped."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_null_logger)
    found = retry(stop, admin.list_topics, topic).topics[topic]
    return 0 if found.error is not None else len(found.partitions)
