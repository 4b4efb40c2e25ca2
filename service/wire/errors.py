"""Errors in bytes from Kafka: one class for each case that an operator handles differently."""

from __future__ import annotations

from typing import ClassVar


class DecodeError(Exception):
    """Base of all decoding errors. Only its subclasses are raised.

    `reason` is stable: it is a metric label and is stored with the rejected bytes.
    """

    reason: ClassVar[str]

    def __init_subclass__(cls, reason: str) -> None:
        cls.reason = reason


class BadLength(DecodeError, reason="bad_length"):
    """A batch length that is too small for a header, or that reaches past the end of a Fetch answer although the answer
    had room for more. The start of the next batch is unknown."""


class BadChecksum(DecodeError, reason="bad_crc"):
    """The CRC-32C over the bytes from the attributes to the end of the batch does not match: bytes were damaged on disk
    or in transit."""


class BadOffset(DecodeError, reason="bad_offset"):
    """A base offset that cannot be right: it is below 0, it is too high, the batch overlaps the previous or the next
    batch, or the batch lies elsewhere in the log than the Fetch asked for. The checksum does not cover the base
    offset."""


class UnsupportedMagic(DecodeError, reason="unsupported_magic"):
    """A message format other than 2. Formats 0 and 1 have no transactions; Kafka 4.0 dropped them."""


class BadCodec(DecodeError, reason="bad_codec"):
    """An unknown compression type, a stream that does not decompress, or a stream that grows past the limit."""


class MalformedBatch(DecodeError, reason="malformed_batch"):
    """A batch with a good checksum, but with an inconsistent header or inconsistent records. The good checksum shows
    that the batch was written like this."""


class NullKey(DecodeError, reason="null_key"):
    """A record without a key in a compacted topic."""


class UnknownKeyVersion(DecodeError, reason="unknown_key_version"):
    """A record type that this decoder does not know, usually a newer one. The key's first int16 is the type
    (KAFKA-18604)."""


class MalformedKey(DecodeError, reason="malformed_key"):
    """A key of a known version that cannot be read."""


class UnknownValueVersion(DecodeError, reason="unknown_value_version"):
    """A value of a version that this decoder does not know."""


class MalformedValue(DecodeError, reason="malformed_value"):
    """A value of a known version that cannot be read."""
