"""Applications that read committed records, and wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition

from deploy.demo.workload.clients import consumer

_PATIENCE_S = 20.0


@contextmanager
def waiting_reader(bootstrap: str, group: str, topic: str, expected: int) -> Iterator[None]:
    """A group with one member that has read the `expected` records it may see, has committed that, and stays."""
    reader = consumer(bootstrap, group)
    try:
        reader.subscribe([topic])
        last = _read(reader, expected)
        reader.commit(offsets=[TopicPartition(t, p, offset + 1) for (t, p), offset in last.items()], asynchronous=False)
        yield
    finally:
        reader.close()


@contextmanager
def stuck_reader(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """A group with one member that cannot begin: its committed offset is part of an open transaction (KIP-447)."""
    reader = consumer(bootstrap, group)
    try:
        reader.subscribe([topic])
        give_up = time.monotonic() + _PATIENCE_S
        while not reader.assignment():
            assert time.monotonic() < give_up, f"{group} gets no partition"
            reader.poll(0.1)
        assert reader.poll(1.0) is None
        yield
    finally:
        reader.close()


def _read(reader: Consumer, expected: int) -> dict[tuple[str, int], int]:
    """The last offset read of each partition."""
    last: dict[tuple[str, int], int] = {}
    count, give_up = 0, time.monotonic() + _PATIENCE_S
    while count < expected:
        assert time.monotonic() < give_up, f"{count} of {expected} records"
        for message in reader.consume(expected - count, 0.2):
            assert message.error() is None, message.error()
            last[message.topic(), message.partition()] = message.offset()
            count += 1
    assert reader.poll(0.5) is None, "it reads what it must not see"
    return last
