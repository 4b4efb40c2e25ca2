"""Produces the hanging, stuck and long transactions that the demo shows, on topics of their own. The workload's record
does not contain these transactions."""

from __future__ import annotations

import threading
from typing import Final

from confluent_kafka import Consumer

from deploy.demo.workload.clients import Stopped, consumer, create_topics
from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import Connection
from deploy.demo.workload.refused_marker import leave_prepared
from deploy.demo.workload.verification import GUARDED, verification_off

REFUNDS: Final = "refunds"
REFUNDS_ID: Final = "refunds-1"
REFUND_MAILS: Final = "refund-mails"
"""A consumer group that reads committed refunds, and is blocked."""
INVOICES: Final = "invoices"
INVOICES_ID: Final = "invoices-1"
ARCHIVE: Final = "archive"
ARCHIVE_ID: Final = "archive-1"
LATE_OFFSET: Final = 8
"""Offset of the first refund that was written after the end of its transaction. Below this offset are four
transactions, each with one record and one marker."""

_COMMITS = 3
_CHECKPOINT_S = 600.0
_BROKER_MAX_TIMEOUT_MS = 900_000  # Kafka's default transaction.max.timeout.ms


class ScenarioError(Exception):
    """A scenario could not be produced. The message is one line for people."""


def run_until(bootstrap: str, stop: threading.Event) -> None:
    """Produces all scenarios. Then runs the blocked consumer and the archive job until `stop` is set. Raises
    ScenarioError. At the end, stuck transactions stay as they are, because their topics are removed with the broker."""
    try:
        with Connection(bootstrap, stop) as connection:
            create_topics(bootstrap, {REFUNDS: 1, INVOICES: 1, ARCHIVE: 2})
            _write_after_the_end(connection)
            leave_prepared(_producer(connection, INVOICES_ID), INVOICES, 0)
            _keep_open(connection, bootstrap, stop)
    except Stopped:
        return
    except Exception as e:
        raise ScenarioError(f"{type(e).__name__}: {e}") from e


def _producer(connection: Connection, name: str) -> OldProducer:
    producer = OldProducer(connection, name)
    producer.init(_BROKER_MAX_TIMEOUT_MS)
    return producer


def _write_after_the_end(connection: Connection) -> None:
    """Writes refunds after their transaction was aborted. On the partition, the refunds open a transaction that will
    never be ended (KAFKA-14402). Since Kafka 3.6, a guard of the brokers refuses such writes, so the guard is switched
    off meanwhile."""
    refunds = _producer(connection, REFUNDS_ID)
    for number in range(_COMMITS + 1):
        refunds.add(REFUNDS, 0)
        refunds.produce(REFUNDS, 0, [b"refund %d" % number])
        refunds.end(commit=number < _COMMITS)
    with verification_off(connection):
        refunds.produce(REFUNDS, 0, [b"refund 4", b"refund 5"], retry_on=GUARDED)


def _keep_open(connection: Connection, bootstrap: str, stop: threading.Event) -> None:
    mails = consumer(bootstrap, REFUND_MAILS)
    try:
        mails.subscribe([REFUNDS])
        archive = _producer(connection, ARCHIVE_ID)
        while not stop.is_set():
            _open(archive)
            _read(mails, stop, _CHECKPOINT_S)
            archive.end(commit=True)
    finally:
        mails.close()


def _open(archive: OldProducer) -> None:
    """Opens a transaction that stays open for long, but within its timeout. A Flink job that commits at its checkpoints
    has such transactions."""
    archive.add(ARCHIVE, 0, 1)
    for partition in (0, 1):
        archive.produce(ARCHIVE, partition, [b"one of many"] * 3, retry_on=GUARDED)


def _read(mails: Consumer, stop: threading.Event, seconds: float) -> None:
    """Reads refunds and commits their offsets, for at most `seconds`. Raises Stopped when `stop` is set."""
    for _ in range(round(seconds / 0.2)):
        if (message := mails.poll(0.2)) is not None and message.error() is None:
            mails.commit(message=message, asynchronous=False)
        if stop.is_set():
            raise Stopped
