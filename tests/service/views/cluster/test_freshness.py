"""The age of the data, and the statements that it still allows."""

from __future__ import annotations

import pytest

from service.views.cluster.frame import Freshness

NOW_MS = 1_790_000_000_000


@pytest.mark.parametrize(
    ("age_ms", "word", "is_old"),
    [
        (-2_000, "live", False),
        (4_999, "live", False),
        (5_000, "late", False),
        (29_999, "late", False),
        (30_000, "old", True),
        (119_999, "old", True),
        (120_000, "unknown", True),
    ],
)
def test_the_word_follows_the_age(age_ms: int, word: str, is_old: bool) -> None:
    fresh = Freshness(NOW_MS, NOW_MS - age_ms)
    assert (fresh.word, fresh.is_old, fresh.age_ms) == (word, is_old, max(age_ms, 0))


def test_nothing_is_known_before_each_source_has_answered() -> None:
    assert Freshness(NOW_MS, None).word == "never"


def test_a_first_read_is_no_old_data_unless_it_came_to_a_halt() -> None:
    assert Freshness(NOW_MS, None, 0.0).word == "reading"
    assert Freshness(NOW_MS, NOW_MS - 60_000, 0.63).word == "reading"
    assert Freshness(NOW_MS, NOW_MS - 120_000, 0.63).word == "unknown"
