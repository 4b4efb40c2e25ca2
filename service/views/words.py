"""Durations, numbers, times and causes as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.id_delta import COUNTED_AS

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
    """Formats a number with commas: `13,356`. Offsets are shown in the same form."""
    return f"{number:,}"


_ROUNDED: Final = 0.9995
"""If a number is at least this share of a unit, the number is written in that unit. In the next smaller unit, the
number would round to 1,000."""


def about(number: float) -> str:
    """Formats a number: below 100,000 in digits with commas, `12,345`; otherwise with a unit, `765 k`, `3.9 M`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size * (100 if unit == "k" else _ROUNDED):
            value = number / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{number:,.0f}"


def size(number: int) -> str:
    """Formats a number of bytes: `9.1 MB`."""
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= length * _ROUNDED:
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
    """Formats a rate: `214 /s`; a rate above 0 and below 0.1 /s by the minute, `2.1 /min`."""
    if per_s and per_s < 0.1:
        return f"{per_s * 60:.1f} /min"
    return f"{per_s:,.1f} /s" if per_s < 10 else f"{per_s:,.0f} /s"


def plural(number: int, one: str, many: str | None = None) -> str:
    """Formats a number with its noun: `1 transaction`, `3 transactions`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def place(topic_partition: tuple[str, int]) -> str:
    return f"{topic_partition[0]}-{topic_partition[1]}"


def clock(ms: int, now_ms: int) -> str:
    """Formats the time of day, UTC, with its date if `now_ms` is on another day."""
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


class Word(NamedTuple):
    """A cause as pages show it. `style`: the end of CSS class names, for the square (`key--…`) and for drawings
    (`tx--…`); `letter`: the letter in the square, "" if there is no square."""

    letter: str
    style: str
    text: str


WORDS: Final = {
    CauseCode.COMMIT: Word("C", "commit", "commit"),
    CauseCode.CLIENT_ABORT: Word("A", "abort", "client abort"),
    CauseCode.TIMEOUT: Word("T", "timeout", "timeout"),
    CauseCode.FENCED: Word("F", "fenced", "fenced"),
    CauseCode.ADMIN: Word("M", "admin", "admin"),
    CauseCode.UNATTRIBUTED: Word("?", "none", "unattributed"),
    CauseCode.EMPTY_ABORT: Word("A", "init", "empty abort"),
    CauseCode.INITIALIZED: Word("I", "init", "initialized"),
    CauseCode.PID_ROTATED: Word("", "none", "producer id rotated"),
    CauseCode.EXPIRY: Word("", "none", "expired"),
}

COUNTED: Final = {word: cause for cause, word in COUNTED_AS.items()}
"""A mapping from each word under which aborts are counted to the cause of these aborts."""

TO_DO: Final = {
    (CauseCode.CLIENT_ABORT, Confidence.LIKELY): (
        "ask the application why it aborts. Applications abort on purpose (a failed check), and after errors of the"
        " producer."
    ),
    (CauseCode.CLIENT_ABORT, Confidence.AMBIGUOUS): (
        "look in the client's log. The coordinator's own log shows no more than the transaction log: the coordinator"
        " logs a line Initialized transactionalId … for each Empty record, whoever ended the transaction before."
    ),
    (CauseCode.TIMEOUT, Confidence.LIKELY): (
        "find what took so long (garbage collection, a slow sink, a batch too large), make transactions smaller, or"
        " raise transaction.timeout.ms (at most the brokers' transaction.max.timeout.ms). A producer of the old"
        " protocol is fenced by the abort and must be created again. Many timeouts at once point to a broker."
    ),
    (CauseCode.FENCED, Confidence.LIKELY): (
        "nothing after a single restart: a restart with an open transaction causes one fence. If two"
        " producers fence each other in turns, find the second instance, if there is one, and give each instance ids of"
        " its own. Do not change ids that belong to a task or an input partition."
    ),
    (CauseCode.FENCED, Confidence.AMBIGUOUS): (
        "look in the client's log at that time. If an abort or a failed request comes first, the client ended the"
        " transaction itself. If ProducerFencedException or InvalidProducerEpochException comes first, another producer"
        " fenced the client."
    ),
    (CauseCode.ADMIN, Confidence.AMBIGUOUS): "nothing if the application runs again; otherwise start it again.",
    (
        CauseCode.ADMIN,
        Confidence.LIKELY,
    ): "start the application again; the id keeps the administrator's timeout until then.",
    (CauseCode.EMPTY_ABORT, Confidence.CERTAIN): "nothing.",
    (CauseCode.EMPTY_ABORT, Confidence.LIKELY): "nothing.",
    (CauseCode.UNATTRIBUTED, Confidence.AMBIGUOUS): "look in the client's log and the coordinator's log.",
}

PROOFS: Final = {
    CauseCode.TIMEOUT: "Completed rollback of ongoing transaction for transactionalId … due to timeout",
}
"""A mapping from cause to the line in the coordinator's own log that proves the cause. No line proves a fence: the
coordinator logs "Initialized transactionalId …" with each Empty record (`TransactionCoordinator.handleInitProducerId`),
even if the client itself had aborted the transaction."""


def word_of(cause: str) -> Word:
    return WORDS[CauseCode(cause)]
