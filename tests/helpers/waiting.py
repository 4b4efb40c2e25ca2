"""Waits for events, and not for fixed times, so that the speed of the machine does not matter. By
default, all waits have the same time limit, which only a hang reaches. At the limit, the failure names the event and
shows the last observation."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

LIMIT_S: Final = 600.0
"""Longest time (s) that a test waits for an event."""
ANSWER_S: Final = 90.0
"""Maximum time (s) that a client in a test waits for one answer. librdkafka gives up earlier, after 60 s, and reports
the cause."""
OPEN_MS: Final = 800_000
"""The timeout of a transaction that a test leaves open: longer than the test, so that the coordinator does not end the
transaction meanwhile."""

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.2
_SHOWN: Final = 4_000

T = TypeVar("T")


def wait_for(
    probe: Callable[[], T | None], what: str, timeout_s: float = LIMIT_S, *, retry_on: tuple[type[Exception], ...] = ()
) -> T:
    """Calls `probe` until its answer is truthy, and returns that answer. Raises AssertionError after `timeout_s`. The
    error names the event `what`.

    An exception of `probe` ends the wait, unless its type is in `retry_on`.
    """
    found = wait_until(probe, bool, what, timeout_s, retry_on=retry_on)
    assert found is not None
    return found


def wait_until_equal(
    probe: Callable[[], object],
    expected: object,
    what: str,
    timeout_s: float = LIMIT_S,
    *,
    retry_on: tuple[type[Exception], ...] = (),
) -> None:
    """Returns when `probe` answers `expected`. Raises AssertionError after `timeout_s`."""
    wait_until(
        probe, lambda answer: answer == expected, f"{what} to be {_shown(expected)}", timeout_s, retry_on=retry_on
    )


def wait_until(
    probe: Callable[[], T],
    is_it: Callable[[T], bool],
    what: str,
    timeout_s: float = LIMIT_S,
    *,
    retry_on: tuple[type[Exception], ...] = (),
) -> T:
    """Calls `probe` until `is_it` returns True for its answer, and returns that answer. Raises AssertionError after
    `timeout_s`. Exceptions of `probe` are treated as in `wait_for`."""
    give_up, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
    while True:
        is_last = time.monotonic() > give_up
        try:
            answer = probe()
            if is_it(answer):
                return answer
            seen = _shown(answer)
        except retry_on as e:
            seen = f"raised {e!r}"
        if is_last:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; seen last: {seen}")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _shown(value: object) -> str:
    """Returns `value` as text. A long text is cut to its last part, which has the newest lines of a log."""
    text = f"\n{value}" if isinstance(value, str) and "\n" in value else repr(value)
    return text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}"
