"""What goes wrong while the demo runs, on topics of its own: the workload and its book know nothing of it."""

from __future__ import annotations

import threading
from typing import Final

from confluent_kafka import Consumer

from deploy.demo.workload.clients import Stopped, consumer, create_topics
from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import Connection
from deploy.demo.workload.refused_marker import never_complete
from deploy.demo.workload.verification import GUARDED, verification_off

REFUNDS: Final = "refunds"
REFUNDS_ID: Final = "refunds-1"
REFUND_MAILS: Final = "refund-mails"
"""A group that reads committed refunds, and waits."""
INVOICES: Final = "invoices"
INVOICES_ID: Final = "invoices-1"
ARCHIVE: Final = "archive"
ARCHIVE_ID: Final = "archive-1"
LATE_AT: Final = 8
"""Offset of the first refund that was written after the end of its transaction: behind four of them, each a record and
its marker."""

_COMMITS = 3
_CHECKPOINT_S = 600.0
_MAX_TIMEOUT_MS = 900_000  # Kafka's default transaction.max.timeout.ms


class TroubleError(Exception):
    """The trouble could not be made; one line for people."""


def run_until(bootstrap: str, stop: threading.Event) -> None:
    """Make it all, then stay with what needs somebody alive: a member of the group, a job that goes on.

    Raises TroubleError. What is stuck stays stuck: its topics are thrown away with the broker.
    """
    try:
        with Connection(bootstrap, stop) as connection:
            create_topics(bootstrap, {REFUNDS: 1, INVOICES: 1, ARCHIVE: 2})
            _write_after_the_end(connection)
            never_complete(_producer(connection, INVOICES_ID), INVOICES, 0)
            _stay(connection, bootstrap, stop)
    except Stopped:
        return
    except Exception as e:
        raise TroubleError(f"{type(e).__name__}: {e}") from e


def _producer(connection: Connection, name: str) -> OldProducer:
    producer = OldProducer(connection, name)
    producer.init(_MAX_TIMEOUT_MS)
    return producer


def _write_after_the_end(connection: Connection) -> None:
    """A refund is sent, takes its time on the way, and arrives when its transaction is aborted: nobody will ever end
    what it opens (KAFKA-14402). Brokers guard against that since 3.6; for this moment they do not."""
    refunds = _producer(connection, REFUNDS_ID)
    for number in range(_COMMITS + 1):
        refunds.add(REFUNDS, 0)
        refunds.produce(REFUNDS, 0, [b"refund %d" % number])
        refunds.end(commit=number < _COMMITS)
    with verification_off(connection):
        refunds.produce(REFUNDS, 0, [b"refund 4", b"refund 5"], again=GUARDED)


def _stay(connection: Connection, bootstrap: str, stop: threading.Event) -> None:
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
    """As a job of Flink that commits with its checkpoints: open for long, and in time."""
    archive.add(ARCHIVE, 0, 1)
    for partition in (0, 1):
        archive.produce(ARCHIVE, partition, [b"one of many"] * 3)


def _read(mails: Consumer, stop: threading.Event, seconds: float) -> None:
    """For so long, or until it is to stop (Stopped)."""
    for _ in range(round(seconds / 0.2)):
        if (message := mails.poll(0.2)) is not None and message.error() is None:
            mails.commit(message=message, asynchronous=False)
        if stop.is_set():
            raise Stopped
