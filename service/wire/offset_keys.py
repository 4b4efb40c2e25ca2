"""Decodes keys of `__consumer_offsets`: the partition for which a consumer group commits an offset.

The first int16 is the type of the record. Kafka calls it the version of the key, and since 4.1 its coordinator record
type (KAFKA-18604).

| type           | record                                                                 |
|----------------|------------------------------------------------------------------------|
| 0, 1           | an offset: group, topic (int16 size, UTF-8), partition (int32)         |
| 2              | members of a group of the classic protocol (GroupMetadata)             |
| 3..8, 16       | state of a group of KIP-848's protocol                                 |
| 9..15          | state of a share group (KIP-932)                                       |
| 17..23         | state of a streams group (KIP-1071)                                    |

Source: LegacyOffsetCommitKey.json, OffsetCommitKey.json, GroupMetadataKey.json and the other `*Key.json` of
group-coordinator/src/main/resources/common/message, Kafka 4.0 to 4.3. As in Kafka's generated readers, bytes after the
last field are ignored. Unlike in Kafka's readers, names are checked: a client with WRITE on the topic may write
anything, and a record that no group coordinator wrote must not be taken for an offset of a group.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from service.wire.cursor import Cursor
from service.wire.errors import MalformedKey, NullKey, UnknownKeyVersion

_OFFSETS: Final = frozenset({0, 1})
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Matches a valid topic name (`Topic.validate`)."""
LAST_TYPE: Final = 23


class OffsetKey(NamedTuple):
    """A partition for which a group commits an offset. The group's name may be any UTF-8 text."""

    group: str
    topic: str
    partition: int


def decode_offset_key(key: bytes | None) -> OffsetKey | None:
    """Returns the decoded key. Returns None for a record of a known type that is not an offset.

    Raises NullKey if `key` is None, UnknownKeyVersion if Kafka 4.3 has no such type of record, MalformedKey if the key
    is not valid.
    """
    if key is None:
        raise NullKey("a record without key")
    cursor = Cursor(key, MalformedKey)
    kind = cursor.int16()
    if not 0 <= kind <= LAST_TYPE:
        raise UnknownKeyVersion(f"key version {kind} (0 to {LAST_TYPE} expected)")
    if kind not in _OFFSETS:
        return None
    found = OffsetKey(_text(cursor), _text(cursor), cursor.int32())
    if _TOPIC.fullmatch(found.topic) is None or found.partition < 0:
        raise MalformedKey(f"topic {found.topic!r} and partition {found.partition} are not valid")
    return found


def _text(cursor: Cursor) -> str:
    try:
        return cursor.take(cursor.int16()).decode()
    except UnicodeDecodeError as error:
        raise MalformedKey("a name that is not UTF-8") from error
