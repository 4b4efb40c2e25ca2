"""Durations, numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def duration(ms: int) -> str:
    """Formats a duration: at most two units, `2 m 14 s`; one decimal under 10 s, `3.2 s`. Never negative."""
    ms = max(ms, 0)
    if ms < 9_950:
        return f"{ms / 1000:.1f} s"
    seconds = (ms + 500) // 1000 if ms < 60_000 else ms // 1000
    for place, (unit, length) in enumerate(_UNITS):
        if seconds >= length:
            return f"{seconds // length} {unit}{_rest(seconds % length, place + 1)}"
    return "0.0 s"


def fine(ms: int) -> str:
    """Formats a duration like `duration`, but in milliseconds if it is shorter than a second: `38 ms`."""
    return duration(ms) if ms >= 1_000 else f"{max(ms, 0)} ms"


def _rest(seconds: int, place: int) -> str:
    if place == len(_UNITS) or seconds < _UNITS[place][1]:
        return ""
    unit, length = _UNITS[place]
    number = seconds // length
    return f" {number} {unit}" if unit == "h" else f" {number:02} {unit}"


def count(number: int) -> str:
    """Formats a number with commas, as offsets are shown too: `13,356`."""
    return f"{number:,}"


def about(number: float) -> str:
    """Formats a number as at most three figures and their unit: `765 k`, `3.9 M`; below 100,000 in full, with
    commas."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size * (100 if unit == "k" else 1):
            value = number / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{number:,.0f}"


def size(number: int) -> str:
    """Formats a number of bytes: `9.1 MB`."""
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= length:
            return f"{number / length:.1f} {unit}"
    return f"{number} B"


def share(part: int, whole: int) -> str:
    """Formats a share in percent: `0.10 %`. A share above zero is never shown as zero."""
    if not part or not whole:
        return "0 %"
    percent = 100 * part / whole
    if percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.2f} %" if percent < 10 else f"{percent:.1f} %"


def rate(per_s: float) -> str:
    """Formats a rate: `214 /s`; a slow one by the minute, `2.1 /min`."""
    if per_s and per_s < 0.1:
        return f"{per_s * 60:.1f} /min"
    return f"{per_s:,.1f} /s" if per_s < 10 else f"{per_s:,.0f} /s"


def plural(number: int, one: str, many: str | None = None) -> str:
    """Formats a number with its noun: `1 transaction`, `3 transactions`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def clock(ms: int, now_ms: int) -> str:
    """Formats the time of day, UTC, with its date if that is another day than now."""
    at, now = (_EPOCH + timedelta(milliseconds=one) for one in (ms, now_ms))
    return at.strftime("%H:%M:%S" if at.date() == now.date() else "%Y-%m-%d %H:%M:%S")


def exact(ms: int) -> str:
    """Formats date and time, UTC, with milliseconds."""
    at = _EPOCH + timedelta(milliseconds=ms)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03}"


def iso(ms: int) -> str:
    """Formats a time for `<time datetime>`."""
    at = _EPOCH + timedelta(milliseconds=ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
