"""Variable-length integers, the writing side."""

from __future__ import annotations


def uvarint(number: int) -> bytes:
    """7 bits a byte, low group first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    """Zigzag, up to 64 bits."""
    return uvarint((number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF)
