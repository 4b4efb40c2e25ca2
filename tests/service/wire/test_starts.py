"""Tests that the vectorised search for batch starts finds what stepping from batch to batch finds, for any bytes."""

from __future__ import annotations

import struct
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.wire import locating
from service.wire.locating import batch_starts
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import COMMIT, Rec, batch, control_batch
from tests.service.wire.logs import damaged, random_chunks

USUAL_HEADER_END = b"\xff" * 14 + b"\0\0\0\1"


def stepped(data: bytes) -> list[int]:
    found = []
    position = 0
    while position + 61 <= len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        if length < 49:
            break
        found.append(position)
        position += 12 + length
    return found


def usual(offset: int, value: bytes | None = None) -> bytes:
    return batch([Rec(build.key("a"), build.value(0) if value is None else value)], offset)


def lookalike(rng: Random) -> bytes:
    """Returns bytes that resemble a batch header, for use inside a value or between batches.

    The length in the header is valid, arbitrary, or too small.
    """
    length = rng.choice([49, 60, rng.randrange(400), rng.randrange(-(2**31), 2**31), -1, 48])
    return rng.randbytes(8) + struct.pack(">i", length) + rng.randbytes(31) + USUAL_HEADER_END


def hostile_log(seed: int) -> bytes:
    """Returns up to 59 batches of various kinds, some with headers inside their values. About a third of all logs also
    have damage and garbage. About half of all logs are cut at a random byte."""
    rng = Random(seed)
    kinds = [
        lambda: usual(1),
        lambda: usual(1, lookalike(rng) + rng.randbytes(rng.randrange(200))),
        lambda: usual(1, lookalike(rng) * rng.randrange(1, 6)),
        lambda: usual(1, rng.randbytes(rng.randrange(900))),
        lambda: batch([Rec(build.key("b"), None, delta) for delta in range(rng.randrange(5))], 1),
        lambda: batch([Rec(b"k", b"v")], 1, producer_id=7, producer_epoch=0, base_sequence=0),
        lambda: control_batch(COMMIT, 1),
    ]
    rare = [
        lambda: damaged(rng, usual(1)),
        lambda: lookalike(rng),
        lambda: rng.randbytes(rng.randrange(300)),
        lambda: bytes(rng.randrange(300)),
        lambda: b"\xff" * rng.randrange(100),
    ]
    kinds = rng.sample(kinds, rng.randint(1, len(kinds))) * 20 + rng.choice([[], [], rare])
    log = b"".join(rng.choice(kinds)() for _ in range(rng.randrange(60)))
    return log[: rng.randint(0, len(log))] if rng.random() < 0.5 else log


@given(st.integers(0, 2**64), st.sampled_from([70, 200, 1000]), st.sampled_from([3, 20, 1000]))
@settings(max_examples=500)
def test_the_vectorised_search_finds_the_batch_starts_of_any_log(seed: int, stretch: int, most_steps: int) -> None:
    with patch.multiple(locating, STRETCH=stretch, FEWEST_WALKS=1, MOST_STEPS=most_steps):
        for data in (hostile_log(seed), *(chunk.data for chunk in random_chunks(seed))):
            assert batch_starts(data).tolist() == stepped(data)


@given(st.binary(max_size=600))
@settings(max_examples=200)
def test_the_vectorised_search_finds_the_batch_starts_in_any_bytes(data: bytes) -> None:
    with patch.multiple(locating, STRETCH=62, FEWEST_WALKS=1):
        assert batch_starts(data).tolist() == stepped(data)


@pytest.mark.parametrize("tail", [b"", usual(9)[:-1], usual(9)[:61], usual(9)[:60], usual(9)[:5]], ids=len)
def test_a_log_of_a_coordinator_needs_no_loop(tail: bytes) -> None:
    """The vectorised search alone finds all starts of batches, although the log contains a sweep of tombstones and an
    emptied batch, and is cut as a Fetch may cut it."""
    odd_ones = [batch([Rec(build.key(str(n)), None, n) for n in range(40)]), batch([], last_offset_delta=3)]
    data = b"".join([*map(usual, range(2000)), *odd_ones, *map(usual, range(2000))]) + tail
    with patch.object(locating, "_starts_by_loop", side_effect=AssertionError):
        assert batch_starts(data).tolist() == stepped(data)


def test_one_walk_over_a_long_log_is_left_to_the_loop() -> None:
    """The headers of idempotent producers' batches do not end as usual. In a log of these batches, the vectorised
    search would walk through the whole log, and the loop is faster."""
    data = batch([Rec(b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0) * 8000
    assert len(data) > locating.FEWEST_WALKS * locating.STRETCH
    with patch.object(locating, "_starts_by_loop", return_value=iter([5])):
        assert batch_starts(data).tolist() == [5]
