"""Reads Kafka's primitive types one after the other, never past the end.

| type        | bytes | source (clients/.../common/utils/ByteUtils.java, protocol/types) |
|-------------|-------|------------------------------------------------------------------|
| int8..int64 | 1..8  | big-endian, two's complement                                     |
| uvarint     | 1..5  | 7 bits a byte, low group first, high bit = more; wraps to int32  |
| varint      | 1..5  | uvarint of the zigzag number                                     |
| varlong     | 1..10 | the same in 64 bits                                              |
"""

from __future__ import annotations

import struct

from service.wire.errors import DecodeError

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


def wrap(number: int, bits: int) -> int:
    """Returns the two's complement of `number` in `bits` bits, as Java's arithmetic does."""
    half = 1 << (bits - 1)
    return ((number + half) & ((1 << bits) - 1)) - half


class Cursor:
    """A position in `data`. A read past the end raises `error`, the exception class for this kind of data."""

    __slots__ = ("_data", "_error", "end", "position")

    def __init__(self, data: bytes, error: type[DecodeError]) -> None:
        self._data, self._error = data, error
        self.position, self.end = 0, len(data)

    @property
    def left(self) -> int:
        """The number of bytes not read yet."""
        return self.end - self.position

    def skip(self, size: int) -> int:
        """Skips `size` bytes; returns the position of the first byte skipped."""
        start = self.position
        if not 0 <= size <= self.end - start:
            raise self._error(f"{size} bytes expected at {start}, {self.end - start} left")
        self.position = start + size
        return start

    def take(self, size: int) -> bytes:
        """Returns the next `size` bytes."""
        start = self.skip(size)
        return self._data[start : start + size]

    def int8(self) -> int:
        byte = self._data[self.skip(1)]
        return byte - 256 if byte > 127 else byte

    def int16(self) -> int:
        number: int = _I16.unpack_from(self._data, self.skip(2))[0]
        return number

    def int32(self) -> int:
        number: int = _I32.unpack_from(self._data, self.skip(4))[0]
        return number

    def int64(self) -> int:
        number: int = _I64.unpack_from(self._data, self.skip(8))[0]
        return number

    def uvarint(self) -> int:
        """Reads a number as Java's readUnsignedVarint does: five bytes at most; bits above the 32nd are dropped."""
        return wrap(self._groups(5), 32)

    def varint(self) -> int:
        number = self._groups(5) & 0xFFFFFFFF
        return (number >> 1) ^ -(number & 1)

    def varlong(self) -> int:
        number = self._groups(10) & 0xFFFFFFFFFFFFFFFF
        return (number >> 1) ^ -(number & 1)

    def _groups(self, most: int) -> int:
        number = 0
        for shift in range(0, 7 * most, 7):
            byte = self._data[self.skip(1)]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise self._error(f"a varint of more than {most} bytes before position {self.position}")
