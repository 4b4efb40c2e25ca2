"""Keys of transactional.ids in the store: the whole id, unless it is too long for the indexes of a database.

A B-tree may hold no more than 2,704 bytes a row; an id of Kafka's may have 32,767, a topic beside it 249.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from service.store.escaped_text import possible_ids

KEY_ID_BYTES: Final = 1_024
"""Number of bytes of an id that its key keeps. An id, or a prefix of one, that is no longer than this is its own
key."""

_MARK: Final = b"\xff"  # never part of UTF-8, so in no id that a coordinator writes
_CUT_LENGTH: Final = KEY_ID_BYTES + len(_MARK) + sha256().digest_size


def id_key(transactional_id: bytes) -> bytes:
    """Returns the id itself; for a long one its beginning, 0xff and the digest of the whole. The key of a key is that
    key."""
    if len(transactional_id) <= KEY_ID_BYTES or is_cut(transactional_id):
        return transactional_id
    return transactional_id[:KEY_ID_BYTES] + _MARK + sha256(transactional_id).digest()


def is_cut(key: bytes) -> bool:
    """Returns whether the key is a shortened id."""
    return len(key) == _CUT_LENGTH and key.startswith(_MARK, KEY_ID_BYTES)


def prefix_end(prefix: bytes) -> bytes | None:
    """Returns the smallest bytes above all that begin with `prefix`; None where there are none (all 0xff)."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def full_id(key: bytes, display: str) -> bytes:
    """Returns the id behind a key, read from its display text and verified by the digest. Where the text does not give
    that id, returns the key itself, which finds the id as well."""
    if not is_cut(key):
        return key
    return next((reading for reading in possible_ids(display) if id_key(reading) == key), key)
