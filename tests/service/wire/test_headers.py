"""Headers without records: also of a batch that a Fetch cut, and never of bytes that are none."""

from __future__ import annotations

import pytest

from service.wire.batches import HEADER_SIZE, Batch, read_batches
from service.wire.header_columns import read_headers
from tests.helpers.builders.batches import COMMIT, TRANSACTIONAL, Rec, batch, control_batch

FIRST = batch([Rec(b"k", b"v" * 100), Rec(b"k", b"v", 1)], 5, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=1)
SECOND = control_batch(COMMIT, 7, producer_id=7)


def test_the_same_headers_as_of_whole_batches() -> None:
    batches = [one for one in read_batches(FIRST + SECOND, 5) if isinstance(one, Batch)]
    assert list(read_headers(FIRST + SECOND)) == [one.header for one in batches]


@pytest.mark.parametrize(
    "cut", [HEADER_SIZE, HEADER_SIZE + 1, len(FIRST) - 1, len(FIRST), len(FIRST) + HEADER_SIZE - 1]
)
def test_of_a_batch_that_is_cut_its_header_is_enough(cut: int) -> None:
    assert [header.base_offset for header in read_headers((FIRST + SECOND)[:cut])] == [5]


@pytest.mark.parametrize(
    "broken",
    [
        FIRST[:16] + b"\1" + FIRST[17:],
        FIRST[:8] + b"\0\0\0\0" + FIRST[12:],
        FIRST[:23] + b"\xff" * 4 + FIRST[27:],
        b"\xff" * 61,
        b"",
    ],
)
def test_what_cannot_be_a_header_ends_them(broken: bytes) -> None:
    assert list(read_headers(broken)) == []
    assert len(list(read_headers(SECOND + broken))) == 1
