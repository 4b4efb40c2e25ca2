"""Splits record batches of the transaction log into fields, and joins the fields again.

The code follows the specification, and is independent of the decoder. When a batch is joined, its length, its checksum,
and the sizes of records, keys and values are computed, except for sizes that a mutation has set.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import google_crc32c

from tests.helpers.builders.batches import compress
from tests.helpers.builders.numbers import uvarint, varint

HEADER = (
    ("base_offset", 8),
    ("length", 4),
    ("leader_epoch", 4),
    ("magic", 1),
    ("crc", 4),
    ("attributes", 2),
    ("last_offset_delta", 4),
    ("base_timestamp", 8),
    ("max_timestamp", 8),
    ("producer_id", 8),
    ("producer_epoch", 2),
    ("base_sequence", 4),
    ("count", 4),
)
SHORTEST_VALUE = 35
SIZES = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


@dataclass(slots=True)
class Piece:
    """A field: its name, its type (`bytes`, or a type of integer), and its bytes."""

    name: str
    kind: str
    data: bytes

    def copy(self) -> Piece:
        return Piece(self.name, self.kind, self.data)


@dataclass(slots=True)
class Record:
    """A record of a batch. `key` and `value` are None if null. `given` has the sizes that a mutation has set, keyed by
    name."""

    head: list[Piece]
    key: list[Piece] | None
    value: list[Piece] | None
    headers: bytes = b"\0"
    given: dict[str, bytes] = field(default_factory=dict)

    def copy(self) -> Record:
        return Record(_copies(self.head), _maybe(self.key), _maybe(self.value), self.headers, dict(self.given))

    def encode(self) -> bytes:
        body = joined(self.head) + self._sized("key_size", self.key) + self._sized("value_size", self.value)
        body += self.headers
        return self.given.get("length", varint(len(body))) + body

    def _sized(self, name: str, pieces: list[Piece] | None) -> bytes:
        data = b"" if pieces is None else joined(pieces)
        return self.given.get(name, varint(-1 if pieces is None else len(data))) + data


@dataclass(slots=True)
class Batch:
    """The header fields and the records of a batch. `encode` compresses the records with `codec`, even if the header
    names another codec."""

    header: dict[str, Piece]
    records: list[Record]
    codec: int = 0
    xerial: bool = False

    def copy(self) -> Batch:
        header = {name: piece.copy() for name, piece in self.header.items()}
        return Batch(header, [record.copy() for record in self.records], self.codec, self.xerial)

    @property
    def offsets(self) -> int:
        return int.from_bytes(self.header["last_offset_delta"].data, "big") + 1

    def encode(self) -> bytes:
        """Returns the bytes of the batch, with the right length and checksum."""
        plain = b"".join(record.encode() for record in self.records)
        data = joined(list(self.header.values())) + compress(self.codec, plain, xerial=self.xerial)
        data = data[:8] + struct.pack(">i", len(data) - 12) + data[12:]
        return data[:17] + struct.pack(">I", google_crc32c.value(data[21:])) + data[21:]


def joined(pieces: list[Piece]) -> bytes:
    return b"".join([piece.data for piece in pieces])


def _copies(pieces: list[Piece]) -> list[Piece]:
    return [piece.copy() for piece in pieces]


def _maybe(pieces: list[Piece] | None) -> list[Piece] | None:
    return None if pieces is None else _copies(pieces)


class _Reader:
    """Reads bytes that were not mutated, field by field."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fixed(self, name: str, size: int) -> Piece:
        self.at += size
        return Piece(name, SIZES[size], self.data[self.at - size : self.at])

    def bytes(self, name: str, size: int) -> Piece:
        self.at += size
        return Piece(name, "bytes", self.data[self.at - size : self.at])

    def number(self, name: str, kind: str) -> tuple[Piece, int]:
        start, found, shift = self.at, 0, 0
        while True:
            byte = self.data[self.at]
            found |= (byte & 0x7F) << shift
            shift += 7
            self.at += 1
            if byte < 0x80:
                return Piece(name, kind, self.data[start : self.at]), found

    def signed(self, name: str) -> tuple[Piece, int]:
        piece, found = self.number(name, "varint")
        return piece, found >> 1 ^ -(found & 1)


def take_apart(data: bytes) -> Batch:
    """Splits one healthy, uncompressed batch into its fields."""
    reader = _Reader(data)
    header = {name: reader.fixed(name, size) for name, size in HEADER}
    records = []
    while reader.at < len(data):
        _, size = reader.signed("length")
        stop = reader.at + size
        head = [reader.fixed("attributes", 1), reader.signed("time_delta")[0], reader.signed("offset_delta")[0]]
        key, value = _nullable(reader), _nullable(reader)
        headers = data[reader.at : stop]
        records.append(
            Record(head, None if key is None else _key(key), None if value is None else _value(value), headers)
        )
        reader.at = stop
    return Batch(header, records)


def _nullable(reader: _Reader) -> bytes | None:
    _, size = reader.signed("size")
    return None if size < 0 else reader.bytes("", size).data


def _key(data: bytes) -> list[Piece]:
    reader = _Reader(data)
    return [reader.fixed("key_version", 2), reader.fixed("id_size", 2), reader.bytes("id", len(data) - 4)]


def _value(data: bytes) -> list[Piece]:
    """Returns the pieces of a value. If the version is neither 0 nor 1, or if the value is too short, there are two
    pieces: the version, and the remaining bytes."""
    reader = _Reader(data)
    version = int.from_bytes(data[:2], "big")
    pieces = [reader.fixed("version", 2)]
    if version > 1 or len(data) < SHORTEST_VALUE:
        return [*pieces, reader.bytes("rest", len(data) - 2)]
    for name, size in (("producer_id", 8), ("producer_epoch", 2), ("timeout_ms", 4), ("status", 1)):
        pieces.append(reader.fixed(name, size))
    (_topics_v1 if version else _topics_v0)(reader, pieces)
    pieces += [reader.fixed("last_update_ms", 8), reader.fixed("start_ms", 8)]
    if version:
        _tags(reader, pieces)
    return pieces


def _topics_v0(reader: _Reader, pieces: list[Piece]) -> None:
    pieces.append(reader.fixed("topics", 4))
    for _ in range(max(struct.unpack(">i", pieces[-1].data)[0], 0)):
        pieces.append(reader.fixed("topic_size", 2))
        pieces.append(reader.bytes("topic", int.from_bytes(pieces[-1].data, "big")))
        pieces.append(reader.fixed("partitions", 4))
        pieces += [reader.fixed("partition", 4) for _ in range(int.from_bytes(pieces[-1].data, "big"))]


def _topics_v1(reader: _Reader, pieces: list[Piece]) -> None:
    piece, topics = reader.number("topics", "uvarint")
    pieces.append(piece)
    for _ in range(topics - 1):
        piece, size = reader.number("topic_size", "uvarint")
        pieces += [piece, reader.bytes("topic", size - 1)]
        piece, count = reader.number("partitions", "uvarint")
        pieces += [piece, *(reader.fixed("partition", 4) for _ in range(count - 1))]
        _tags(reader, pieces)


def _tags(reader: _Reader, pieces: list[Piece]) -> None:
    piece, tags = reader.number("tags", "uvarint")
    pieces.append(piece)
    for _ in range(tags):
        tag, _ = reader.number("tag", "uvarint")
        size, length = reader.number("tag_size", "uvarint")
        pieces += [tag, size, reader.bytes("tagged", length) if length not in SIZES else reader.fixed("tagged", length)]


def number_of(kind: str, number: int) -> bytes:
    """Returns the bytes of `number` in a field of the type `kind`, without the high bits that do not fit."""
    if kind == "uvarint":
        return uvarint(number & 2**64 - 1)
    if kind == "varint":
        return varint(number)
    size = {name: size for size, name in SIZES.items()}[kind]
    return (number & (1 << 8 * size) - 1).to_bytes(size, "big")
