"""Where the offsets of a consumer group are kept: a partition of `__consumer_offsets`."""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"


def offsets_partition(group: str, partitions: int) -> int:
    """Of `partitions` in all, as the group coordinator chooses it (`GroupCoordinatorService.partitionFor`)."""
    return _java_abs(_java_hash(group)) % partitions


def _java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 code units, in 32 bits with a sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


def _java_abs(number: int) -> int:
    """`Utils.abs`: the one number without a counterpart becomes 0."""
    return 0 if number == -(1 << 31) else abs(number)
