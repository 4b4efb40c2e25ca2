"""Runs consumer groups that read committed records, and wait at an open transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer

from deploy.demo.workload.clients import consumer
from tests.helpers.commits import commit_offsets
from tests.helpers.waiting import wait_for, wait_until_equal


@contextmanager
def waiting_reader(bootstrap: str, group: str, topic: str, expected: int) -> Iterator[None]:
    """Runs a group with one member, which has read all `expected` readable records and committed their offsets."""
    reader = consumer(bootstrap, group)
    try:
        reader.subscribe([topic])
        last = _read(reader, expected)
        commit_offsets(reader, {place: offset + 1 for place, offset in last.items()})
        yield
    finally:
        reader.close()


@contextmanager
def stuck_reader(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """Runs a group with one member that cannot start reading, because the group's offset is part of an open transaction
    (KIP-447)."""
    reader = consumer(bootstrap, group)
    try:
        reader.subscribe([topic])
        wait_for(lambda: (reader.poll(0.1), reader.assignment())[1], f"a partition assigned to {group}")
        assert reader.poll(1.0) is None
        yield
    finally:
        reader.close()


def _read(reader: Consumer, expected: int) -> dict[tuple[str, int], int]:
    """Reads `expected` records, and checks that no further record can be read. Returns the last offset of each
    partition."""
    last: dict[tuple[str, int], int] = {}
    read: list[int] = []

    def count() -> int:
        for message in reader.consume(expected - len(read), 0.2):
            assert message.error() is None, message.error()
            last[message.topic(), message.partition()] = message.offset()
            read.append(message.offset())
        return len(read)

    wait_until_equal(count, expected, "the number of records read")
    assert reader.poll(0.5) is None, "the group reads records beyond the open transaction"
    return last
