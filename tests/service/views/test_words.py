"""Tests of durations, numbers and times as text."""

from __future__ import annotations

import pytest

from service.views import words

AT_MS = 1_790_000_000_000  # 2026-09-21 14:13:20 UTC


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0.0 s"),
        (3_240, "3.2 s"),
        (9_949, "9.9 s"),
        (9_950, "10 s"),
        (59_400, "59 s"),
        (59_600, "1 m"),
        (60_000, "1 m"),
        (134_000, "2 m 14 s"),
        (135_999, "2 m 15 s"),
        (3_600_000, "1 h"),
        (3_900_000, "1 h 05 m"),
        (90_000_000, "1 d 1 h"),
        (604_800_000, "7 d"),
    ],
)
def test_a_duration_has_at_most_two_units(ms: int, text: str) -> None:
    assert words.duration(ms) == text


def test_short_times_are_in_milliseconds() -> None:
    assert [words.fine(ms) for ms in (0, 38, 999, 1_500, 60_000)] == ["0 ms", "38 ms", "999 ms", "1.5 s", "1 m"]


def test_offsets_are_whole_and_counts_may_be_rounded() -> None:
    assert words.count(48_211_900) == "48,211,900"
    assert [words.about(n) for n in (0, 999, 12_345, 765_432, 999_600, 3_900_000, 214e6)] == [
        "0",
        "999",
        "12,345",
        "765 k",
        "1 M",
        "3.9 M",
        "214 M",
    ]
    assert [words.size(n) for n in (12, 600_000, 999_960, 9_100_000, 21_800_000_000)] == [
        "12 B",
        "600.0 kB",
        "1.0 MB",
        "9.1 MB",
        "21.8 GB",
    ]


def test_a_share_or_rate_above_zero_is_never_shown_as_zero() -> None:
    assert words.share(0, 10) == words.share(0, 0) == "0 %"
    assert words.share(735, 765_000) == "0.10 %"
    assert words.share(1, 10_000_000) == "< 0.01 %"
    assert words.share(1, 3) == "33.3 %"
    assert words.rate(0.035) == "2.1 /min"
    assert words.rate(0) == "0.0 /s"
    assert words.rate(213.6) == "214 /s"


def test_a_count_of_one_has_the_singular() -> None:
    assert words.plural(1, "transaction") == "1 transaction"
    assert words.plural(1_246, "partition") == "1,246 partitions"
    assert words.plural(2, "partition is", "partitions are") == "2 partitions are"


def test_times_have_their_date_on_another_day() -> None:
    assert words.clock(AT_MS, AT_MS + 1_000) == "14:13:20"
    assert words.clock(AT_MS, AT_MS + 86_400_000) == "2026-09-21 14:13:20"
    assert words.exact(AT_MS + 7) == "2026-09-21 14:13:20.007"
    assert words.iso(AT_MS + 7) == "2026-09-21T14:13:20.007Z"
