"""Explains in words why the transactions of an id were aborted: each cause, its confidence, its number, and what to do.
Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from service.domain.transaction_log import states
from service.domain.transaction_log.abort_explanation import why_ended
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.states import is_time
from service.domain.transaction_log.timeline import Row
from service.domain.transaction_log.transitions import REPEATED
from service.views import words
from service.views.cause_words import PROOFS, TO_DO, WORDS, Word

_HEADS = {
    "client_abort": "Aborted by its own client",
    "timeout": "Timed out",
    "fenced": "Aborted for an InitProducerId of its id",
    "admin": "Ended through the admin API",
    "unattributed": "Aborted, by whom is not known",
    "empty_abort": "Aborted while empty",
}


class Answer(NamedTuple):
    """The aborts of one cause and confidence. `times`: their number; `more`: for how long they were open; `proof`: the
    line that a broker logs."""

    word: Word
    head: str
    times: int
    first_ms: int
    last_ms: int
    confidence: Confidence
    why: str
    more: str
    to_do: str
    proof: str | None


def answers(rows: Iterable[Row]) -> list[Answer]:
    """Returns an answer for each cause and confidence among the aborts, the newest first. Aborts of empty transactions
    are included only if there are no others."""
    found: dict[tuple[CauseCode, Confidence], list[Row]] = {}
    for row in rows:
        if row.cause is not None and row.confidence is not None and is_abort(row):
            found.setdefault((row.cause, row.confidence), []).append(row)
    if any(cause != CauseCode.EMPTY_ABORT for cause, _ in found):
        found = {key: some for key, some in found.items() if key[0] != CauseCode.EMPTY_ABORT}
    told = [_answer(cause, confidence, some) for (cause, confidence), some in found.items()]
    return sorted(told, key=lambda one: -one.last_ms)


def is_abort(row: Row) -> bool:
    has_cause = row.cause is not None and row.cause in _HEADS and row.note != REPEATED
    return row.to_state == states.PREPARE_ABORT and has_cause and is_time(row.at_ms)


def _answer(cause: CauseCode, confidence: Confidence, rows: list[Row]) -> Answer:
    times = [row.at_ms for row in rows]
    return Answer(
        word=WORDS[cause],
        head=_HEADS[cause],
        times=len(rows),
        first_ms=min(times),
        last_ms=max(times),
        confidence=confidence,
        why=why_ended(cause, confidence) or "",
        more=_open_for([row.duration_ms for row in rows if row.duration_ms is not None]),
        to_do=TO_DO.get((cause, confidence), ""),
        proof=PROOFS.get(cause),
    )


def _open_for(durations: list[int]) -> str:
    if not durations:
        return ""
    shortest, longest = words.duration(min(durations)), words.duration(max(durations))
    return f"Open for {longest}." if shortest == longest else f"Open for {shortest} to {longest}."
