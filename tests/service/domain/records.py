"""Parses a text notation for logs of one id, and judges the records of such a log (`journal`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from service.domain.transaction_log import journal, states
from service.domain.transaction_log.causes import Cause, CauseCode
from service.domain.transaction_log.facts import NO_ID, NO_RECORD, LogRecord
from service.domain.transaction_log.journal import NO_ABORT, LastAbort, Transition

WORDS = {**states.NAMES, states.EXPIRED: "tombstone"}
STATES = {name: state for state, name in WORDS.items()}
FIELDS = {
    "timeout": "timeout_ms",
    "ctv": "client_transaction_version",
    "prev": "previous_producer_id",
    "partitions": "partition_count",
    "start": "start_ms",
    "update": "last_update_ms",
}


def log(text: str) -> list[LogRecord]:
    """Parses the records of one id, one in a line: `at_ms State(pid,epoch) field=number …`. Blank lines and `#`
    comments are ignored.

    An Empty has no start time. The start time of an Ongoing that begins a transaction is the record's own time. Any
    other record keeps the start time of the record before, or has its own time if that record has none. Each record
    also keeps the timeout of the record before, or has 60 s if that record has none. A field overrides these values. By
    default a record has no tagged fields, and an open transaction has one partition. Offsets count from 0. A
    `tombstone` and a record in an unknown state have only an offset, a time and a state.
    """
    records: list[LogRecord] = []
    for line in filter(None, (line.partition("#")[0].split() for line in text.splitlines())):
        records.append(_record(records[-1] if records else None, len(records), *line))
    return records


def _record(before: LogRecord | None, offset: int, at: str, what: str, *fields: str) -> LogRecord:
    name, _, numbers = what.partition("(")
    state, at_ms = STATES[name], int(at)
    if state in (states.EXPIRED, states.UNKNOWN):
        return NO_RECORD._replace(offset=offset, timestamp_ms=at_ms, state=state)
    pid, epoch = map(int, numbers.rstrip(")").split(","))
    before = before or NO_RECORD
    begins = state == states.ONGOING and before.state not in states.OPEN
    start_ms = -1 if state == states.EMPTY else at_ms if begins or before.start_ms < 0 else before.start_ms
    timeout_ms = before.timeout_ms if before.timeout_ms > 0 else 60_000
    partitions = int(state in states.OPEN)
    record = LogRecord(offset, at_ms, 0, state, pid, epoch, timeout_ms, at_ms, start_ms, 0, NO_ID, partitions)
    given = (field.split("=") for field in fields)
    return record._replace(**{FIELDS[name]: int(value) for name, value in given})


class Told(NamedTuple):
    """The result of judging a whole log: all rows, the notable ones, and the number of aborts by cause. All causes are
    final, unless `judged` was called with `settles=False`: then the last one may be preliminary."""

    last_abort: LastAbort
    rows: tuple[Transition, ...]
    notable: tuple[Transition, ...]
    counts: Counter[str]

    @property
    def causes(self) -> list[str]:
        """Returns `State cause confidence` of every row with a cause, except commits."""
        named = [row for row in self.rows if row.cause not in (None, CauseCode.COMMIT)]
        return [f"{WORDS[row.to_state]} {row.cause} {row.confidence}" for row in named]

    @property
    def abort(self) -> str:
        """Returns the cause and the confidence of the newest PrepareAbort."""
        row = [row for row in self.rows if row.to_state == states.PREPARE_ABORT][-1]
        return f"{row.cause} {row.confidence}"

    @property
    def notes(self) -> list[str]:
        return [f"{WORDS[row.to_state]}: {row.note}" for row in self.rows if row.note is not None]


Pairs = Sequence[tuple[LogRecord, LogRecord]]


def pairs(records: Sequence[LogRecord]) -> Pairs:
    return tuple(pairwise([NO_RECORD, *records]))


def reported(records: Sequence[LogRecord] | str) -> Told:
    return judged(pairs(log(records) if isinstance(records, str) else records))


def judged(steps: Pairs, *, settles_early: bool = False, settles: bool = True) -> Told:
    """Judges the records of a log (`journal`). `steps` has each record together with the record before it. With
    `settles_early`, a preliminary cause becomes final before the next record if enough time has passed. With `settles`,
    the last cause becomes final at the end, however much time has passed."""
    last_abort = NO_ABORT
    rows: dict[int, Transition] = {}
    notable: set[int] = set()
    counts: Counter[str] = Counter()
    for before, after in steps:
        settles_at_ms = last_abort.settles_at_ms
        if settles_early and settles_at_ms is not None and after.timestamp_ms >= settles_at_ms:
            last_abort = _settle(last_abort, rows, counts)
        step = journal.judge(last_abort, before, after, counts=True)
        last_abort = step.last_abort
        rows[after.offset] = step.transition
        if step.is_notable:
            notable.add(after.offset)
        if step.revised is not None:
            offset, cause = step.revised
            rows[offset] = _with_cause(rows[offset], cause)
        counts.update(word for word, _ in step.aborts)
    if last_abort.is_waiting and settles:
        last_abort = _settle(last_abort, rows, counts)
    all_rows = tuple(rows.values())
    return Told(last_abort, all_rows, tuple(row for row in all_rows if row.offset in notable), counts)


def _settle(last_abort: LastAbort, rows: dict[int, Transition], counts: Counter[str]) -> LastAbort:
    last_abort = journal.settle(last_abort)
    counts[last_abort.cause.code] += 1
    if last_abort.offset in rows:
        rows[last_abort.offset] = _with_cause(rows[last_abort.offset], last_abort.cause)
    return last_abort


def _with_cause(row: Transition, cause: Cause) -> Transition:
    return row._replace(cause=cause.code, confidence=cause.confidence)
