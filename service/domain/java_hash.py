"""Java's hash of a text, by which Kafka places ids and groups on the partitions of its internal topics. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_LOWEST_INT: Final = -(1 << 31)


def java_hash(text: str) -> int:
    """Returns `java.lang.String.hashCode`: over UTF-16 code units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@lru_cache(maxsize=4096)  # the same ids are asked for at every round of judgement
def partition_of(text: str, partition_count: int) -> int:
    """Returns `Utils.abs(text.hashCode()) % partition_count`; Kafka's `abs` turns the lowest number, which has no
    counterpart, into 0."""
    value = java_hash(text)
    return (0 if value == _LOWEST_INT else abs(value)) % partition_count
