"""Decodes keys and values of `__transaction_state`, in the order in which the specification lists the fields.

Source: TransactionLogKey.json, TransactionLogValue.json (transaction-coordinator/.../common/message), KIP-915 (value
v1), KIP-890 (tags 0-2), KIP-939 (tag 3). Value v0 is fixed; v1 has compact arrays and tagged fields:

| field                   | v0                         | v1                                  |
|-------------------------|----------------------------|-------------------------------------|
| version                 | int16                      | int16 (no tag section after it)     |
| ProducerId              | int64                      | int64                               |
| ProducerEpoch           | int16                      | int16                               |
| TransactionTimeoutMs    | int32                      | int32                               |
| TransactionStatus       | int8, 0..5                 | int8, 0..5                          |
| TransactionPartitions   | int32 n (below 0 = null)   | uvarint n + 1 (0 = null)            |
| . Topic                 | int16 size, UTF-8          | uvarint size + 1, UTF-8             |
| . PartitionIds          | int32 n, n * int32         | uvarint n + 1, n * int32            |
| . tagged fields         |                            | uvarint n, n * (tag, size, bytes)   |
| LastUpdateTimestampMs   | int64                      | int64                               |
| StartTimestampMs        | int64                      | int64                               |
| tagged fields           |                            | 0 PreviousProducerId int64          |
|                         |                            | 1 NextProducerId int64              |
|                         |                            | 2 ClientTransactionVersion int16    |
|                         |                            | 3 NextProducerEpoch int16           |

As in Kafka's generated readers, bytes after the last field are ignored, the last occurrence of a repeated tag counts,
and unknown tags are skipped. Unlike in Kafka's readers, a known tag is an error if its size is not that of its type:
Kafka would read past the end of the tag into the next field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from service.wire.cursor import Cursor
from service.wire.errors import MalformedKey, MalformedValue, NullKey, UnknownKeyVersion, UnknownValueVersion

KEY_VERSION: Final = 0
LAST_STATUS: Final = 5
"""The highest status in the log. Two statuses are higher, 6 (Dead) and 7 (PrepareEpochFence), but these exist only in
the coordinator's memory (TransactionState.java)."""

PREVIOUS_PRODUCER_ID: Final = 0
NEXT_PRODUCER_ID: Final = 1
CLIENT_TRANSACTION_VERSION: Final = 2
NEXT_PRODUCER_EPOCH: Final = 3
TAG_SIZES: Final = {PREVIOUS_PRODUCER_ID: 8, NEXT_PRODUCER_ID: 8, CLIENT_TRANSACTION_VERSION: 2, NEXT_PRODUCER_EPOCH: 2}

Partitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics with their partitions, in the order of the record. The order is arbitrary, because coordinators keep the
partitions in a hash map."""


class TransactionValue(NamedTuple):
    """A decoded value. `partitions` is None in `Empty` (null array) and () in `CompleteX` (empty array); times in ms.

    Topic names are UTF-8 with surrogate escapes: `name.encode("utf-8", "surrogateescape")` gives the bytes back.
    """

    version: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: Partitions | None
    last_update_ms: int
    start_ms: int
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    next_producer_epoch: int = -1

    @property
    def partition_count(self) -> int:
        """Number of participant partitions; 0 for a null or empty array."""
        return sum(len(ids) for _, ids in self.partitions or ())


def decode_key(key: bytes | None) -> bytes:
    """Decodes a key: an int16 version (0), an int16 size, and the transactional id in UTF-8. Returns the id as bytes.
    Raises NullKey, UnknownKeyVersion or MalformedKey."""
    if key is None:
        raise NullKey("a record without key")
    cursor = Cursor(key, MalformedKey)
    version = cursor.int16()
    if version != KEY_VERSION:
        raise UnknownKeyVersion(f"key version {version} ({KEY_VERSION} expected)")
    return cursor.take(cursor.int16())


def decode_value(value: bytes) -> TransactionValue:
    """Decodes one value. Raises UnknownValueVersion or MalformedValue. The caller handles tombstones (null values),
    which have no fields."""
    cursor = Cursor(value, MalformedValue)
    version = cursor.int16()
    if version not in (0, 1):
        raise UnknownValueVersion(f"value version {version} (0 or 1 expected)")
    producer_id = cursor.int64()
    producer_epoch = cursor.int16()
    timeout_ms = cursor.int32()
    status = cursor.int8()
    if not 0 <= status <= LAST_STATUS:
        raise MalformedValue(f"transaction status {status} (0 to {LAST_STATUS} expected)")
    partitions = _partitions(cursor, version)
    last_update_ms = cursor.int64()
    start_ms = cursor.int64()
    tags = _tags(cursor) if version == 1 else {}
    return TransactionValue(
        version,
        producer_id,
        producer_epoch,
        timeout_ms,
        status,
        partitions,
        last_update_ms,
        start_ms,
        tags.get(PREVIOUS_PRODUCER_ID, -1),
        tags.get(NEXT_PRODUCER_ID, -1),
        tags.get(CLIENT_TRANSACTION_VERSION, 0),
        tags.get(NEXT_PRODUCER_EPOCH, -1),
    )


def _partitions(cursor: Cursor, version: int) -> Partitions | None:
    topics = cursor.uvarint() - 1 if version else cursor.int32()
    if topics < 0:
        return None
    _room_for(topics, cursor)
    partitions = []
    for _ in range(topics):
        name = cursor.take(cursor.uvarint() - 1 if version else cursor.int16())
        count = cursor.uvarint() - 1 if version else cursor.int32()
        _room_for(count, cursor)
        partitions.append((name.decode("utf-8", "surrogateescape"), tuple(cursor.int32() for _ in range(count))))
        for _tag, size in _tag_headers(cursor) if version else ():
            cursor.skip(size)
    return tuple(partitions)


def _room_for(count: int, cursor: Cursor) -> None:
    """Raises MalformedValue if the bytes left cannot hold `count` elements of at least one byte each. Called before any
    element is read."""
    if not 0 <= count <= cursor.left:
        raise MalformedValue(f"{count} elements announced, {cursor.left} bytes left")


def _tags(cursor: Cursor) -> dict[int, int]:
    """Returns a mapping from tag number to value, for the tagged fields that are present and known."""
    found = {}
    for tag, size in _tag_headers(cursor):
        wanted = TAG_SIZES.get(tag)
        if wanted is None:
            cursor.skip(size)
        elif size != wanted:
            raise MalformedValue(f"tag {tag} has {size} bytes ({wanted} expected)")
        else:
            found[tag] = cursor.int64() if wanted == 8 else cursor.int16()
    return found


def _tag_headers(cursor: Cursor) -> Iterator[tuple[int, int]]:
    """Yields (tag, size) of each tagged field. The caller must read or skip the bytes of a field before it takes the
    next item."""
    for _ in range(cursor.uvarint()):
        yield cursor.uvarint(), cursor.uvarint()
