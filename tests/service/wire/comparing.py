"""Compares the columnar decoder with the scalar one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from service.wire.columns import Chunk, LogColumns, decode, decode_scalar


def assert_same_as_scalar(chunks: Sequence[Chunk]) -> LogColumns:
    """Decodes the chunks both ways, checks that columns, rejects and positions are equal, and returns the columns."""
    fast, slow = decode(chunks), decode_scalar(chunks)
    for field in fields(LogColumns):
        left, right = getattr(fast, field.name), getattr(slow, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            assert left.tolist() == right.tolist(), field.name
        elif field.name == "transactional_ids":
            assert left.to_pylist() == right.to_pylist()
        elif field.name != "values":
            assert left == right, field.name
    for row in range(len(fast)):
        assert fast.values.get(row) == slow.values.get(row)
        assert fast.participants(row) == slow.participants(row)
    return fast
