"""Decompresses the records of a batch, up to a maximum size.

| bits 0-2 | codec  | on the wire                                                                |
|----------|--------|----------------------------------------------------------------------------|
| 0        | none   |                                                                            |
| 1        | gzip   | RFC 1952                                                                   |
| 2        | snappy | one raw block (librdkafka), or xerial frames (Java): a 16-byte header,     |
|          |        | then any number of raw blocks, each with an int32 size in front            |
| 3        | lz4    | LZ4 frame format                                                           |
| 4        | zstd   | RFC 8878                                                                   |

Source: CompressionType.java, SnappyCompression.java (xerial's SnappyOutputStream); KIP-110 (zstd).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import cramjam
import numpy as np
from cramjam import DecompressionError

from service.wire.errors import BadCodec

LIMIT: Final = 64 << 20
"""Maximum number of bytes of a decompressed batch. Kafka has no such limit; with the producer's default
max.request.size, a batch holds about 1 MB at most before compression."""

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_GZIP_WINDOW: Final = 31  # zlib: 15 bits of window, +16 = gzip framing
_FRAMED: Final[dict[int, Callable[..., int]]] = {3: cramjam.lz4.decompress_into, 4: cramjam.zstd.decompress_into}
_SMALL_ROOM: Final = 1 << 18
_USUAL_RATIO: Final = 8
_I32 = struct.Struct(">i")


def decompress(codec: int, data: bytes, limit: int = LIMIT) -> bytes:
    """Returns the plain bytes of `data`. Raises BadCodec if `data` cannot be decompressed, or has more than `limit`
    plain bytes. Uncompressed data (codec 0) may have any size."""
    if codec == 0:
        return data
    try:
        if codec == 1:
            return _gzip(data, limit)
        if codec == 2:
            return _snappy(data, limit)
        if codec in _FRAMED:
            return _framed(codec, data, limit)
    except (zlib.error, DecompressionError, struct.error) as error:
        raise BadCodec(f"compression type {codec}: {error}") from error
    raise BadCodec(f"compression type {codec} is unknown")


def _gzip(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    plain = stream.decompress(data, limit + 1)
    if len(plain) <= limit and not stream.eof:
        raise BadCodec("gzip: the stream is cut short")
    return _bounded(plain, limit)


def _framed(codec: int, data: bytes, limit: int) -> bytes:
    """Decompresses an lz4 or zstd stream into a buffer of at most `limit` bytes. Such a stream need not contain its
    plain size. A small buffer is tried first, because the kernel has to clear each page of a buffer before its first
    use."""
    into = _FRAMED[codec]
    first = min(limit, max(_SMALL_ROOM, _USUAL_RATIO * len(data)))
    if first < limit:
        with suppress(DecompressionError):
            return _into(into, data, first)
    try:
        return _into(into, data, limit)
    except DecompressionError as error:
        raise BadCodec(f"compression type {codec} cannot be decompressed to at most {limit} bytes: {error}") from error


def _into(decompress_into: Callable[..., int], data: bytes, size: int) -> bytes:
    room = np.empty(size, np.uint8)
    return room[: decompress_into(data, room)].tobytes()


def _snappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _snappy_block(data, limit)
    plain = []
    room = limit
    position = 16  # magic, version, oldest compatible version
    while position < len(data):
        (size,) = _I32.unpack_from(data, position)
        position += 4
        if not 0 <= size <= len(data) - position:
            raise BadCodec(f"snappy: a block of {size} bytes announced, {len(data) - position} left")
        plain.append(_snappy_block(data[position : position + size], room))
        room -= len(plain[-1])
        position += size
    return b"".join(plain)


def _snappy_block(block: bytes, limit: int) -> bytes:
    """Decompresses a raw block. The block begins with its plain size, so the limit is checked before anything is
    allocated."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    else:
        raise BadCodec("snappy: a block without size")
    if size > limit:
        raise BadCodec(f"more than {limit} bytes when decompressed")
    return _into(cramjam.snappy.decompress_raw_into, block, size)


def _bounded(plain: bytes, limit: int) -> bytes:
    if len(plain) > limit:
        raise BadCodec(f"more than {limit} bytes when decompressed")
    return plain
