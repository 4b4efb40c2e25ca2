"""What can be wrong with bytes of Kafka, one class for each thing that an operator would act on differently."""

from __future__ import annotations

from typing import ClassVar


class DecodeError(Exception):
    """Bytes that are not what they should be. Never raised itself: a subclass says what is wrong.

    `reason` is stable: it is a metric label and is stored with the rejected bytes.
    """

    reason: ClassVar[str]

    def __init__(self, detail: str) -> None:
        if type(self) is DecodeError:
            raise TypeError("DecodeError is abstract: raise a subclass")
        super().__init__(detail)


class BadLength(DecodeError):
    """A batch whose length is below what its header needs: nobody can tell where the next batch begins."""

    reason = "bad_length"


class BadChecksum(DecodeError):
    """The CRC-32C over attributes and records does not fit: damaged on disk or on the way."""

    reason = "bad_crc"


class BadOffset(DecodeError):
    """A batch that begins before the end of its predecessor (the offset is not under the checksum)."""

    reason = "bad_offset"


class UnsupportedMagic(DecodeError):
    """A message format other than 2. Formats 0 and 1 know no transactions and left Kafka with 4.0."""

    reason = "unsupported_magic"


class BadCodec(DecodeError):
    """An unknown compression type, a stream that does not decompress, or one that grows past the limit."""

    reason = "bad_codec"


class MalformedBatch(DecodeError):
    """A good checksum around records that do not add up: written so."""

    reason = "malformed_batch"


class NullKey(DecodeError):
    """A record without a key in a compacted topic."""

    reason = "null_key"


class UnknownKeyVersion(DecodeError):
    """A record type of the future (KAFKA-18604: the key's first int16 is the coordinator record type)."""

    reason = "unknown_key_version"


class MalformedKey(DecodeError):
    """A key of a known version that cannot be read."""

    reason = "malformed_key"


class UnknownValueVersion(DecodeError):
    """A value version of the future."""

    reason = "unknown_value_version"


class MalformedValue(DecodeError):
    """A value of a known version that cannot be read."""

    reason = "malformed_value"
