"""Errors in bytes from Kafka: one class for each case that an operator would handle differently."""

from __future__ import annotations

from typing import ClassVar


class DecodeError(Exception):
    """Base of all decoding errors. Never raised itself: a subclass names the error.

    `reason` is stable: it is a metric label and is stored with the rejected bytes.
    """

    reason: ClassVar[str]

    def __init_subclass__(cls, reason: str) -> None:
        cls.reason = reason


class BadLength(DecodeError, reason="bad_length"):
    """A batch length that is too small for a header: the start of the next batch is unknown."""


class BadChecksum(DecodeError, reason="bad_crc"):
    """The CRC-32C over attributes and records does not match: damaged on disk or in transit."""


class BadOffset(DecodeError, reason="bad_offset"):
    """A batch that begins before the end of its predecessor (the offset is not under the checksum)."""


class UnsupportedMagic(DecodeError, reason="unsupported_magic"):
    """A message format other than 2. Formats 0 and 1 have no transactions; Kafka 4.0 dropped them."""


class BadCodec(DecodeError, reason="bad_codec"):
    """An unknown compression type, a stream that does not decompress, or one that grows past the limit."""


class MalformedBatch(DecodeError, reason="malformed_batch"):
    """A batch with a good checksum and inconsistent records: it was written that way."""


class NullKey(DecodeError, reason="null_key"):
    """A record without a key in a compacted topic."""


class UnknownKeyVersion(DecodeError, reason="unknown_key_version"):
    """A record type newer than this decoder (KAFKA-18604: the key's first int16 is the coordinator record type)."""


class MalformedKey(DecodeError, reason="malformed_key"):
    """A key of a known version that cannot be read."""


class UnknownValueVersion(DecodeError, reason="unknown_value_version"):
    """A value version newer than this decoder."""


class MalformedValue(DecodeError, reason="malformed_value"):
    """A value of a known version that cannot be read."""
