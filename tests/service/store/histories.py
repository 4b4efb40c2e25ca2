"""Histories of ids for tests: whole transactions at given times near NOW_MS."""

from __future__ import annotations

from typing import Any

from service.domain.transaction_log import states
from service.domain.transaction_log.id_delta import MINUTE_MS, minute_of
from tests.service.store.logs import NOW_MS, Entry, entry

MINUTE = minute_of(NOW_MS)
"""The beginning (ms) of the minute of NOW_MS."""


def ended(offset: int, at_ms: int, outcome: int, key: bytes = b"pay", markers_ms: int = 10, **more: Any) -> list[Entry]:
    """Returns Ongoing, PrepareX and CompleteX of one transaction, which completes at `at_ms` and was open for 100 ms
    before PrepareX."""
    prepared_ms = at_ms - markers_ms
    start_ms = prepared_ms - 100
    prepare, complete = {
        states.COMPLETE_COMMIT: (states.PREPARE_COMMIT, states.COMPLETE_COMMIT),
        states.COMPLETE_ABORT: (states.PREPARE_ABORT, states.COMPLETE_ABORT),
    }[outcome]
    return [
        entry(offset, states.ONGOING, key, start_ms=start_ms, at_ms=start_ms, **more),
        entry(offset + 1, prepare, key, start_ms=start_ms, at_ms=prepared_ms, **more),
        entry(offset + 2, complete, key, start_ms=start_ms, at_ms=at_ms, **more),
    ]


def committed(offset: int, at_ms: int, key: bytes = b"pay", markers_ms: int = 10, **more: Any) -> list[Entry]:
    return ended(offset, at_ms, states.COMPLETE_COMMIT, key, markers_ms, **more)


def aborted(offset: int, at_ms: int, key: bytes = b"pay", **more: Any) -> list[Entry]:
    """Returns the records of a transaction that its own client aborts."""
    return ended(offset, at_ms, states.COMPLETE_ABORT, key, **more)


def minutes_ago(minutes: float) -> int:
    return MINUTE - int(minutes * MINUTE_MS)
