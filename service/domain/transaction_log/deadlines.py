"""Deadlines of transactions and ids. Only this module decides when an abort is due, and whether a transaction is
overdue."""

from __future__ import annotations

from typing import Final

from service.domain.transaction_log.known_log import KnownLog
from service.domain.transaction_log.states import EXPIRABLE, ONGOING, TWO_PHASE_TIMEOUT_MS, is_time

ABORT_SLACK_MS: Final = 5_000
"""Allowance for the difference between two clocks, and for the time that writing an abort takes."""


def times_out_at_ms(state: int, started_at_ms: int | None, timeout_ms: int) -> int | None:
    """Returns the time from which the coordinator may abort the transaction; None if the coordinator never will, or if
    the start of the transaction is not known."""
    if state != ONGOING or started_at_ms is None or not is_time(started_at_ms) or timeout_ms == TWO_PHASE_TIMEOUT_MS:
        return None
    return started_at_ms + timeout_ms


def abort_due_at_ms(state: int, started_at_ms: int | None, timeout_ms: int, scan_ms: int) -> int | None:
    """Returns the time by which the abort of the transaction has to be in the log: after its timeout, its coordinator's
    next scan for timed-out transactions (every `scan_ms`), and ABORT_SLACK_MS. None if the transaction will not time
    out, or if its start is not known."""
    times_out = times_out_at_ms(state, started_at_ms, timeout_ms)
    return None if times_out is None else times_out + scan_ms + ABORT_SLACK_MS


def is_overdue(state: int, started_at_ms: int | None, timeout_ms: int, partition: int, log: KnownLog) -> bool:
    """Returns whether the transaction is still Ongoing although its abort was due. Returns False if the log partition
    is not known up to the due time."""
    due_ms = abort_due_at_ms(state, started_at_ms, timeout_ms, log.limits.scan_ms)
    return due_ms is not None and log.is_known_until(partition, due_ms)


def overdue_timed_out_by_ms(known_until_ms: int, scan_ms: int) -> int:
    """Returns the time by which a transaction must have timed out to be overdue in a log that is known until
    `known_until_ms`. The store selects transactions by this time, and `is_overdue` decides."""
    return known_until_ms - scan_ms - ABORT_SLACK_MS


def expires_at_ms(state: int, last_update_ms: int, expiration_ms: int) -> int | None:
    """Returns the time from which the coordinator may remove the id in its next sweep. Returns None if a transaction is
    open, if the id is already removed, or if its state or last update is not known."""
    if state not in EXPIRABLE or not is_time(last_update_ms):
        return None
    return last_update_ms + expiration_ms
