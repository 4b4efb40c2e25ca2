"""The next event of a transactional.id (abort by timeout, completion or expiry), and the causes of its last aborts, in
words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from service.domain.findings.open_too_long import abort_due_ms, is_overdue, is_stuck
from service.domain.transaction_log import states
from service.domain.transaction_log.abort_explanation import why_ended
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.coordinator_partition import is_left_behind
from service.domain.transaction_log.deadlines import expires_at_ms, times_out_at_ms
from service.domain.transaction_log.journal import Transition
from service.domain.transaction_log.known_log import KnownLog, Limits
from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS, is_time
from service.domain.transaction_log.transitions import REPEATED
from service.store.rows.ids import IdRow
from service.views import words
from service.views.words import PROOFS, TO_DO, WORDS, Word

UNTIL, SINCE, AT = "until", "since", "at"

_DAY_MS: Final = 86_400_000
_DISCARDED: Final = "its records are then discarded"


class Next(NamedTuple):
    """The next event in words: `lead`, a time and `tail`. `more`: the text of a second line. `clock`: pages show the
    time left until `at_ms` (UNTIL), the time passed since `at_ms` (SINCE), or `at_ms` itself (AT).

    `tone`, `icon`: the tone and the icon of the drawing; "" and `muted` are the tones of plain text.
    """

    tone: str
    icon: str
    lead: str
    clock: str = ""
    at_ms: int = 0
    tail: str = ""
    more: str = ""


def is_late(row: IdRow, log: KnownLog) -> bool:
    """Returns whether the end of the id's transaction is late: its abort is overdue, or its markers are not written in
    time."""
    return is_stuck(row, log) or is_overdue(row, log)


def open_since_ms(row: IdRow) -> int | None:
    """Returns the time (ms) at which the open transaction began; None if no transaction is open, or its start is no
    valid time."""
    return row.started_at_ms if is_time(row.started_at_ms) else None


def next_step(row: IdRow, log: KnownLog, now_ms: int) -> Next:
    """Returns the next event of the id. `log`: the limits of the brokers, and how far the transaction log is known."""
    if row.state == states.UNKNOWN:
        return Next("unknown", "unknown", "unknown", more="its newest record cannot be decoded")
    if row.state == states.EXPIRED:
        return Next(
            "muted", "", "expired", *((AT, row.record.timestamp_ms) if is_time(row.record.timestamp_ms) else ())
        )
    is_lost = is_left_behind(row.transactional_id, row.partition, log.partition_count)
    if is_lost and row.state in states.OPEN:
        where = f"its record is in {states.TOPIC}-{row.partition}"
        who = "a coordinator that has restarted since partitions were added does not look for the id there"
        return Next("now", "warning", "left behind", more=f"{where}; {who}")
    if row.state == states.ONGOING:
        return _of_open(row, log, now_ms)
    if row.state in states.PREPARED:
        return _of_prepared(row, log, now_ms)
    return _of_idle(row, log.limits, now_ms)


def _of_open(row: IdRow, log: KnownLog, now_ms: int) -> Next:
    if row.timeout_ms == TWO_PHASE_TIMEOUT_MS:
        return Next("", "", "no timeout", more="two-phase commit")
    times_out_ms = times_out_at_ms(row.state, row.started_at_ms, row.timeout_ms)
    timeout = f"timeout {words.duration(row.timeout_ms)}"
    if times_out_ms is None or not is_time(times_out_ms):
        return Next("unknown", "unknown", "unknown", more=f"{timeout}; its start time is not valid")
    due_ms = abort_due_ms(row, log) or times_out_ms
    if is_overdue(row, log):
        return Next("now", "warning", "overdue by", SINCE, due_ms, more="the coordinator should have aborted it")
    left_ms = times_out_ms - now_ms
    if now_ms > due_ms:
        return Next("unknown", "unknown", "abort was due", AT, due_ms, more="whether it was aborted is not read yet")
    if left_ms <= 0:
        scan = f"at the latest {words.duration(due_ms - times_out_ms)} after its timeout; {_DISCARDED}"
        return Next("soon", "clock", "aborts itself any moment now", more=scan)
    if left_ms * 4 <= row.timeout_ms:
        return Next("soon", "clock", "aborts itself in", UNTIL, times_out_ms, more=f"{timeout}; {_DISCARDED}")
    return Next("", "", "", UNTIL, times_out_ms, "left", more=timeout)


def _of_prepared(row: IdRow, log: KnownLog, now_ms: int) -> Next:
    if not is_stuck(row, log):
        return Next("muted", "", "markers being written")
    since = f"in {states.NAMES[row.state]} for {words.duration(now_ms - row.state_since_ms)}"
    return Next(
        "when",
        "completing",
        "completes when its markers are written",
        more=f"{since}; its coordinator retries, unless a broker refused a marker",
    )


def _of_idle(row: IdRow, limits: Limits, now_ms: int) -> Next:
    expires_ms = expires_at_ms(row.state, row.record.last_update_ms, limits.expiration_ms)
    if expires_ms is not None and is_time(expires_ms) and expires_ms - now_ms < _DAY_MS:
        unused = f"unused for {words.duration(now_ms - row.record.last_update_ms)}"
        swept_ms = expires_ms + limits.sweep_ms
        if swept_ms < now_ms:
            more = f"{unused}; its removal has not been read"
            return Next("unknown", "unknown", "expiry was due", AT, swept_ms, more=more)
        if expires_ms <= now_ms:
            sweep = f"at the latest {words.duration(limits.sweep_ms)} after its expiry time"
            return Next("soon", "clock", "expires any moment now", more=f"{unused}; {sweep}")
        return Next("soon", "clock", "expires in", UNTIL, expires_ms, more=unused)
    if not is_time(row.record.timestamp_ms):
        return Next("muted", "", "")
    return Next("muted", "", "initialized" if row.state == states.EMPTY else "ended", AT, row.record.timestamp_ms)


def last_outcome(row: IdRow) -> tuple[Word | None, str | None]:
    """Returns the outcome of the id's last decided transaction, in a word, and the confidence of its cause. The
    confidence is None for a commit, an empty abort, and an abort without a stored cause. Returns (None, None) before
    the first decision about a transaction with partitions."""
    if row.last_outcome is None:
        return None, None
    if row.last_outcome in (states.PREPARE_COMMIT, states.COMPLETE_COMMIT):
        return WORDS[CauseCode.COMMIT], None
    if row.last_abort is None or row.last_abort.cause.code == CauseCode.EMPTY_ABORT:
        return Word("", "none", "abort"), None
    return WORDS[row.last_abort.cause.code], row.last_abort.cause.confidence


_HEADS: Final = {
    "client_abort": "Aborted by its own client",
    "timeout": "Timed out",
    "fenced": "Aborted by an InitProducerId of the same id",
    "admin": "Ended through the admin API",
    "unattributed": "Aborted, but it is not known by whom",
    "empty_abort": "Aborted while empty",
}
_AMBIGUOUS_HEADS: Final = {
    "client_abort": "Aborted by its own client, or fenced",
    "fenced": "Fenced, or aborted by its own client",
    "admin": "Ended through the admin API, or by a restart",
}


class Answer(NamedTuple):
    """The aborts with the same cause and confidence. `times`: number of these aborts. `more`: how long the transactions
    were open, in words. `proof`: the line in the coordinator's own log that proves the cause; None if there is no such
    line."""

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


def answers(transitions: Iterable[Transition]) -> list[Answer]:
    """Returns the answers to "why was it aborted?", the newest first: one for each cause and confidence among the
    aborts. Aborts of empty transactions are left out if there are other aborts."""
    found: dict[tuple[CauseCode, Confidence], list[Transition]] = {}
    for row in transitions:
        if row.cause is not None and row.confidence is not None and is_abort(row):
            found.setdefault((row.cause, row.confidence), []).append(row)
    if any(cause != CauseCode.EMPTY_ABORT for cause, _ in found):
        found = {key: some for key, some in found.items() if key[0] != CauseCode.EMPTY_ABORT}
    given = [_answer(cause, confidence, some) for (cause, confidence), some in found.items()]
    return sorted(given, key=lambda answer: -answer.last_ms)


def is_abort(row: Transition) -> bool:
    has_cause = row.cause is not None and row.cause in _HEADS and row.note != REPEATED
    return row.to_state == states.PREPARE_ABORT and has_cause and is_time(row.at_ms)


def _answer(cause: CauseCode, confidence: Confidence, rows: list[Transition]) -> Answer:
    times = [row.at_ms for row in rows]
    return Answer(
        word=WORDS[cause],
        head=_AMBIGUOUS_HEADS.get(cause, _HEADS[cause]) if confidence is Confidence.AMBIGUOUS else _HEADS[cause],
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
