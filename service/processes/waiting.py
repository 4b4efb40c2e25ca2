"""Tools for processes that wait: a clock that counts only the time in which a process could have worked, reports of the
steps of long work, and growing pauses between retries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from service.processes.identity import ProcessorTime, processor_time


class Backoff:
    """Pauses in seconds: the first is `first_s`, each next one twice as long, up to `longest_s`."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = min(first_s, longest_s), longest_s
        self._next_s = self._first_s

    def next_s(self) -> float:
        """Returns the pause to make now, and doubles the next one."""
        pause_s = self._next_s
        self._next_s = min(pause_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Makes the next pause `first_s` again; to be called after enough time without a failure."""
        self._next_s = self._first_s


_heard: Final = threading.local()


def step() -> None:
    """Reports a step, such as a request to a broker or a transaction of the store, to the listener of this thread, if
    there is one."""
    listener: Callable[[], None] | None = getattr(_heard, "by", None)
    if listener is not None:
        listener()


@contextmanager
def heard_by(listener: Callable[[], None]) -> Iterator[None]:
    """Sends the steps of this thread to `listener` until the block ends."""
    before = getattr(_heard, "by", None)
    _heard.by = listener
    try:
        yield
    finally:
        _heard.by = before


def touch(path: str) -> None:
    """Reports a step to another process on this machine: the other process sees that the file's time changes. Does
    nothing if `path` is empty."""
    if path:
        with suppress(OSError):  # the folder is gone with the process that watched the file
            Path(path).touch()


LONGEST_STEP_S: Final = 1.0
"""Maximum time (s) that is counted between two calls of `step` or `skip`. If more time has passed, the process that
measures was stopped itself, and so, most likely, was the process that it measures."""

QUIET_MISSES: Final = 3
"""From this number of missed beats on, the meter asks the kernel how long the process waited for a processor. Asking
takes milliseconds."""

_ENOUGH: Final = 0.5
"""If processes get at least this share of the processor time that they want, a second counts as a whole second. On a
busy machine with two cores, threads get a larger share; beside forty busy loops, they get a twentieth."""


class WorkingTime:
    """Measures the seconds in which `pids` could have worked: call `step` or `skip` about once a second.

    On a machine whose processors are busy with other work, processes are slow but not dead. So only a part of a second
    counts if these processes waited for a processor for longer than they ran. A second in which they wanted no
    processor, because they are stopped or stuck, counts as a whole second.
    """

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        monotonic: Callable[[], float] = time.monotonic,
        used: Callable[[Iterable[int]], ProcessorTime] = processor_time,
    ) -> None:
        self._pids, self._monotonic, self._used = pids, monotonic, used
        self._at_s = monotonic()
        self._before: ProcessorTime | None = None

    def skip(self) -> float:
        """Returns the seconds since the last `step` or `skip`, at most LONGEST_STEP_S. Does not check whether the
        processes waited for a processor: call `skip` while the processes respond."""
        now_s = self._monotonic()
        seconds = min(max(now_s - self._at_s, 0.0), LONGEST_STEP_S)
        self._at_s, self._before = now_s, None
        return seconds

    def step(self) -> float:
        """Returns the time (s) since the last call, without the part in which the processes could not have worked."""
        before, used = self._before, self._used(self._pids())
        seconds = self.skip()
        self._before = used
        return seconds if before is None else seconds * _part(before, used)


class SilenceMeter:
    """Measures for how long one process has been unresponsive: call `heard` or `missed` about once a second.

    Beats are often a little late. So after the first missed beats, the meter counts the whole time, without a check
    whether the process could have worked.
    """

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._time, self._misses = WorkingTime(pids), 0
        self.seconds = 0.0

    def heard(self) -> None:
        self._time.skip()
        self.seconds, self._misses = 0.0, 0

    def missed(self) -> float:
        """Counts a missed beat. Returns the time (s) for which the process has been unresponsive so far."""
        self._misses += 1
        self.seconds += self._time.skip() if self._misses < QUIET_MISSES else self._time.step()
        return self.seconds


def _part(before: ProcessorTime, after: ProcessorTime) -> float:
    """Returns the part of a second that counts, up to 1. Returns 1 if the times went down: threads or processes ended,
    so the share is unknown."""
    ran_ns, waited_ns = after.ran_ns - before.ran_ns, after.waited_ns - before.waited_ns
    if ran_ns < 0 or waited_ns <= 0:
        return 1.0
    return min(ran_ns / (ran_ns + waited_ns) / _ENOUGH, 1.0)
