"""Makes an input from a number: a log of good batches with one mutated batch among them.

Most mutations know the fields (`tests.fuzz.pieces`). They set numbers to limits, falsify sizes and counts, and repeat,
remove or insert tags and elements. The other mutations change, remove or insert arbitrary bytes. Length and checksum
are nearly always corrected, so that the decoder reaches the damaged part.
"""

from __future__ import annotations

import struct
from functools import cache
from random import Random
from typing import NamedTuple

import google_crc32c

from tests.fuzz.pieces import HEADER, SIZES, Batch, Piece, Record, number_of
from tests.fuzz.seeds import seeds
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import GZIP, SNAPPY, Rec, batch

NUMBERS = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 48, 49, 61, 100, 200, 0x7F, 0x80, 0xFF, 0x3FFF, 0x4000, 2**15 - 1, 2**15, 2**16),
    *(
        2**20,
        2**21 - 1,
        2**21,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**32,
        2**40,
        2**53 + 1,
        2**63 - 1,
        2**63 - 2,
        2**63 - 60_000,
    ),
    *(-1, -2, -3, -49, -128, -(2**15), -(2**31), -(2**32), -(2**62), -(2**63), -(2**63) + 1),
    *(1_700_000_000_000, 4001),
)
ENDLESS = b"\xff" * 12
COMPUTED = ("length", "crc")
STARTS = (0, 7, 1_000, 2**40, 2**63 - 2**31 - 100)


class Good(NamedTuple):
    """A record that must be decoded, because its batch is not mutated."""

    transactional_id: bytes
    producer_id: int
    status: int


class Input(NamedTuple):
    """The log of one partition.

    - `begins`: (position, offset) of the beginning of every batch, and of the end of the log. The offsets are those
      before the mutation.
    - `good`: the record at each offset of the batches before and after the mutated one.
    - `bad`: the first offset of the mutated batch, and the first offset after it.
    - `claimed_end`: the position at which the mutated batch ends according to its length field.
    - `crc_is_right`: whether the checksum fits the bytes up to `claimed_end`.
    """

    log: bytes
    begins: tuple[tuple[int, int], ...]
    good: dict[int, Good]
    bad: tuple[int, int]
    claimed_end: int
    crc_is_right: bool

    @property
    def lo(self) -> int:
        return self.begins[0][1]

    @property
    def hi(self) -> int:
        return self.begins[-1][1]

    @property
    def position_of_bad(self) -> int:
        return next(position for position, offset in self.begins if offset == self.bad[0])

    @property
    def end_of_bad(self) -> int:
        return next(position for position, offset in self.begins if offset == self.bad[1])


@cache
def _good() -> tuple[tuple[bytes, Good], ...]:
    """Returns good batches and their records: one record in each batch, at offset 0, each of a different id."""
    found = []
    for number in range(240):
        status = number % 6
        raw = b"good-%d" % number
        topics = (None, (), [("orders", [number])], [("a", [1, 2]), ("b", [3])])[number % 4]
        tagged = (build.tags(-1, client_transaction_version=2), {}, build.tags(1, 2, 2, 3) | {9: b"new"})[number % 3]
        value = build.value(
            number // 6 % 2, producer_id=10_000 + number, status=status, topics=topics, tagged=tagged, start_ms=number
        )
        codec = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, GZIP, SNAPPY)[number % 16]
        found.append((batch([Rec(build.key(raw), value)], attributes=codec), Good(raw, 10_000 + number, status)))
    return tuple(found)


def make(seed: int, number: int) -> Input:
    """Returns the input with that number. The same seed always gives the same input."""
    rng = Random(seed << 40 | number)
    before, behind = rng.randint(1, 2), rng.randint(2, 3)
    healthy = rng.choice(seeds())
    offset = rng.choice(STARTS) if rng.random() < 0.3 else 0
    pieces, begins, good = [], [], {}
    position = bad_at = 0
    bad = (0, 0)
    chosen = rng.sample(_good(), before + behind)
    for index in range(before + behind + 1):
        begins.append((position, offset))
        if index == before:
            bad, bad_at = (offset, offset + healthy.offsets), position
            data = _mutated(rng, healthy, offset)
            offset += healthy.offsets
        else:
            raw, good[offset] = chosen[index - (index > before)]
            data = _I64.pack(offset) + raw[8:]
            offset += 1
        pieces.append(data)
        position += len(data)
    begins.append((position, offset))
    log = bytearray(b"".join(pieces))
    end = bad_at + 12 + _I32.unpack_from(log, bad_at + 8)[0] if position - bad_at >= 12 else position
    is_right = _seal(log, bad_at, end, rng.random() < 0.95)
    return Input(bytes(log), tuple(begins), good, bad, end, is_right)


def _seal(log: bytearray, at: int, end: int, mend: bool) -> bool:
    """Computes the checksum of the batch from position `at` to `end`. `end` is the end of the batch according to its
    length field. With `mend`, writes the checksum into the header. Returns whether the header then has the right
    checksum, or False if `end` is impossible."""
    if not at + HEADER_SIZE <= end <= len(log):
        return False
    crc = struct.pack(">I", google_crc32c.value(bytes(log[at + 21 : end])))
    if mend:
        log[at + 17 : at + 21] = crc
    return log[at + 17 : at + 21] == crc


_I64, _I32 = struct.Struct(">q"), struct.Struct(">i")
HEADER_SIZE = sum(size for _, size in HEADER)


def _mutated(rng: Random, healthy: Batch, offset: int) -> bytes:
    """Returns the bytes of a healthy batch after its mutation. The checksum is corrected later."""
    one = healthy.copy()
    one.header["base_offset"].data = _I64.pack(offset)
    header: dict[str, bytes] = {}
    if rng.random() < 0.85:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            header |= _mutate_fields(rng, one)
        data = bytearray(one.encode())
    else:
        data = _blindly(rng, bytearray(one.encode()))
    if one.codec and rng.random() < 0.2:
        _flip(rng, data, HEADER_SIZE)
    for name in COMPUTED:
        if name in header:
            at, size = _PLACES[name]
            data[at : at + size] = header[name]
    return bytes(data)


_PLACES = {name: (sum(s for _, s in HEADER[:index]), size) for index, (name, size) in enumerate(HEADER)}


def _mutate_fields(rng: Random, one: Batch) -> dict[str, bytes]:
    """Changes the header, a record, or parts of a key or value of the batch. Returns the new bytes, keyed by field
    name, of the header fields that `Batch.encode` would overwrite."""
    place = rng.random()
    if place < 0.2 or not one.records:
        return _mutate_header(rng, one)
    record = rng.choice(one.records)
    if place < 0.35:
        _mutate_record(rng, one, record)
    elif place < 0.5 and record.key is not None:
        _mutate_pieces(rng, record.key, [r.key for s in rng.sample(seeds(), 2) for r in s.records])
    elif record.value is not None:
        _mutate_pieces(rng, record.value, [r.value for s in rng.sample(seeds(), 2) for r in s.records])
    return {}


def _mutate_header(rng: Random, one: Batch) -> dict[str, bytes]:
    name = rng.choice(HEADER)[0]
    if name in ("length", "crc") and rng.random() < 0.7:
        name = "attributes"  # a wrong length stops decoding, so most damage should be deeper
    piece = one.header[name]
    if name in COMPUTED:
        return {name: _changed(rng, piece)}
    piece.data = _changed(rng, piece)
    return {}


def _mutate_record(rng: Random, one: Batch, record: Record) -> None:
    kind = rng.randrange(8)
    if kind < 3:
        piece = rng.choice(record.head)
        piece.data = _changed(rng, piece)
    elif kind < 6:
        name = rng.choice(("length", "key_size", "value_size"))
        record.given[name] = _changed(rng, Piece(name, "varint", b"\x14"))
    elif kind == 6:
        record.headers = rng.choice((b"", b"\1", b"\2", b"\x7e", ENDLESS, b"\2\1\1", b"\2\2h\x7f", rng.randbytes(4)))
    else:
        _rearranged(rng, one, record)


def _rearranged(rng: Random, one: Batch, record: Record) -> None:
    kind = rng.randrange(5)
    if kind == 0:
        one.records.append(record.copy())
    elif kind == 1:
        one.records.remove(record)
    elif kind == 2:
        record.key = None
    elif kind == 3:
        record.value = None
    else:
        rng.shuffle(one.records)


def _mutate_pieces(rng: Random, pieces: list[Piece], others: list[list[Piece] | None]) -> None:
    """Changes, repeats, removes or appends pieces of a key or a value, or replaces them by pieces of another key or
    value."""
    if not pieces:
        return
    kind = rng.random()
    at = rng.randrange(len(pieces))
    if kind < 0.65:
        pieces[at].data = _changed(rng, pieces[at])
    elif kind < 0.72:
        del pieces[at:]
    elif kind < 0.78:
        del pieces[at]
    elif kind < 0.84:
        pieces.insert(at, pieces[rng.randrange(len(pieces))].copy())
    elif kind < 0.9:
        pieces.append(Piece("more", "bytes", rng.randbytes(rng.randrange(1, 40))))
    elif other := rng.choice([other for other in others if other] or [None]):
        pieces[at:] = [piece.copy() for piece in other[rng.randrange(len(other)) :]]


def _changed(rng: Random, piece: Piece) -> bytes:
    """Returns changed bytes for a field. In most cases, the new bytes are a value of the field's type."""
    how = rng.random()
    if piece.kind == "bytes":
        return _changed_text(rng, piece.data)
    if how < 0.5:
        return number_of(piece.kind, rng.choice(NUMBERS))
    if how < 0.7:
        return _nudged(rng, piece)
    if how < 0.8:
        return rng.randbytes(len(piece.data))
    if how < 0.9 and piece.kind in ("varint", "uvarint"):
        return rng.choice(
            (ENDLESS, b"\x80\0", b"\x80" * 4 + b"\0", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\1", b"\xff")
        )
    raw = bytearray(piece.data)
    _flip(rng, raw, 0)
    return bytes(raw)


def _nudged(rng: Random, piece: Piece) -> bytes:
    if piece.kind in SIZES.values():
        return number_of(piece.kind, int.from_bytes(piece.data, "big") + rng.randint(-3, 3))
    return bytes([piece.data[0] ^ rng.choice((1, 2, 3, 4, 0x80))]) + piece.data[1:]


def _changed_text(rng: Random, data: bytes) -> bytes:
    choices = (b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"'\";--", data[:-1], data + b"\0", data * 2, rng.randbytes(9))
    return b"x" * 32_767 if rng.random() < 0.01 else rng.choice(choices)


def _flip(rng: Random, data: bytearray, start: int) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        if len(data) > start:
            data[rng.randrange(start, len(data))] ^= 1 << rng.randrange(8)


def _blindly(rng: Random, data: bytearray) -> bytearray:
    """Flips bits, cuts off the end, or puts a piece of another batch in place of some bytes. After a cut or a
    replacement, corrects the length in most cases."""
    kind = rng.random()
    if kind < 0.5:
        _flip(rng, data, rng.choice((0, HEADER_SIZE - 4, HEADER_SIZE)))
        return data
    if kind < 0.75:
        del data[rng.randrange(HEADER_SIZE, len(data) + 1) :]
    else:
        other = rng.choice(seeds()).encode()
        at = rng.randrange(HEADER_SIZE, len(data) + 1)
        data[at : at + rng.randrange(40)] = other[rng.randrange(len(other)) :][: rng.randrange(300)]
    if rng.random() < 0.8:
        data[8:12] = _I32.pack(len(data) - 12)
    return data
