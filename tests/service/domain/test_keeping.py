"""`[keep]`: what is not said is as ever, and a mistake is named."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.retention_policy import DEFAULT, Keep, parse


def test_what_is_said_counts_and_travels_as_json() -> None:
    keep = parse({"history": "30d", "findings": "24h"})
    assert keep == DEFAULT._replace(history=30 * 86_400_000, findings=86_400_000)
    assert Keep.load(keep.dump()) == keep
    assert parse({}) == DEFAULT


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"histroy": "7d"}, "unknown key 'histroy' (did you mean history?)"),
        ({"x": "7d"}, "unknown key 'x'; there are: history, minutes, producer_ids, rejects, gaps, findings"),
        ({"history": 7}, "history: 7 is no duration like 90s, 15m, 24h or 7d"),
        ({"history": "59m"}, "history: '59m' is shorter than an hour"),
        (["history"], "not a table: write [keep]"),
    ],
)
def test_a_mistake_is_named(table: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"key|duration|hour|table") as raised:
        parse(table)
    assert str(raised.value) == message
