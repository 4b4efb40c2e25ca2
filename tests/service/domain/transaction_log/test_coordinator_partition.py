"""The partition of an id is the one that Kafka's coordinator computes."""

from __future__ import annotations

import pytest

from service.domain.transaction_log.coordinator_partition import coordinator_partition, is_left_behind, java_hash


@pytest.mark.parametrize(
    ("name", "hashed", "partition"),
    [
        ("order-tx-1", 710245959, 9),
        ("polygenelubricants", -2147483648, 0),
        ("café-1", -1367835771, 21),
        ("交易-1", 624865747, 47),
        ("😀tx", 1703759655, 5),
        ("a", 97, 47),
        ("", 0, 0),
    ],
)
def test_hash_and_partition_of_fifty(name: str, hashed: int, partition: int) -> None:
    """As Java printed them (kafka-transactions facts, section 6)."""
    assert java_hash(name) == hashed
    assert coordinator_partition(name.encode(), 50) == partition


@pytest.mark.parametrize(
    ("name", "of_five", "of_eight"), [(b"exp-a", 0, 1), (b"exp-b", 1, 2), (b"exp-c", 2, 3), (b"pay-1", 4, 4)]
)
def test_partitions_that_were_added_move_an_id(name: bytes, of_five: int, of_eight: int) -> None:
    """As brokers of 5 and then of 8 partitions placed them."""
    assert coordinator_partition(name, 5) == of_five
    assert coordinator_partition(name, 8) == of_eight
    assert is_left_behind(name, of_five, 8) == (of_five != of_eight)
    assert not is_left_behind(name, of_eight, 8)


@pytest.mark.parametrize(("name", "count"), [(b"bytes \xff", 50), (b"\xed\xa0\x80", 50), (b"pay", 0)])
def test_a_partition_that_is_not_known_leaves_nothing_behind(name: bytes, count: int) -> None:
    assert coordinator_partition(name, count) is None
    assert not is_left_behind(name, 3, count)
