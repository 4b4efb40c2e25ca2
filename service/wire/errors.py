"""Errors in bytes from Kafka: one class for each case that an operator would handle differently."""

from __future__ import annotations

from typing import ClassVar


class DecodeError(Exception):
    """Base of all decoding errors. Never raised itself: a subclass names the error.

    `reason` is stable: it is a metric label and is stored with the rejected bytes.
    """

    reason: ClassVar[str]


class BadLength(DecodeError):
    """A batch length that is too small for a header: the start of the next batch is unknown."""

    reason = "bad_length"


class BadChecksum(DecodeError):
    """The CRC-32C over attributes and records does not match: damaged on disk or in transit."""

    reason = "bad_crc"


class BadOffset(DecodeError):
    """A batch that begins before the end of its predecessor (the offset is not under the checksum)."""

    reason = "bad_offset"


class UnsupportedMagic(DecodeError):
    """A message format other than 2. Formats 0 and 1 have no transactions; Kafka 4.0 dropped them."""

    reason = "unsupported_magic"


class BadCodec(DecodeError):
    """An unknown compression type, a stream that does not decompress, or one that grows past the limit."""

    reason = "bad_codec"


class MalformedBatch(DecodeError):
    """A batch with a good checksum and inconsistent records: it was written that way."""

    reason = "malformed_batch"


class NullKey(DecodeError):
    """A record without a key in a compacted topic."""

    reason = "null_key"


class UnknownKeyVersion(DecodeError):
    """A record type newer than this decoder (KAFKA-18604: the key's first int16 is the coordinator record type)."""

    reason = "unknown_key_version"


class MalformedKey(DecodeError):
    """A key of a known version that cannot be read."""

    reason = "malformed_key"


class UnknownValueVersion(DecodeError):
    """A value version newer than this decoder."""

    reason = "unknown_value_version"


class MalformedValue(DecodeError):
    """A value of a known version that cannot be read."""

    reason = "malformed_value"
