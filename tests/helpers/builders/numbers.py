"""Writes variable-length integers."""

from __future__ import annotations


def uvarint(number: int) -> bytes:
    """Returns the varint of an unsigned number: 7 bits a byte, the lowest bits first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    """Returns the varint of a signed number of up to 64 bits, in zigzag encoding."""
    return uvarint((number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF)
