"""Gaps among the offsets that were read."""

from __future__ import annotations

import numpy as np
import pytest

from service.wire.log_columns import holes


@pytest.mark.parametrize(
    ("offsets", "lo", "hi", "found"),
    [
        ([3, 4, 5], 3, 6, []),
        ([], 3, 6, [(3, 6)]),
        ([4, 7], 3, 9, [(3, 4), (5, 7), (8, 9)]),
        ([], 3, 3, []),
    ],
    ids=["none", "all of it", "before, between and behind", "nothing asked for"],
)
def test_ranges_without_a_record(offsets: list[int], lo: int, hi: int, found: list[tuple[int, int]]) -> None:
    starts, ends = holes(np.array(offsets, dtype=np.int64), lo, hi)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == found
