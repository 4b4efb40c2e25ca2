"""A clock for silence: it counts only the time in which a process could have worked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from service.processes.linux import ProcessorTime, processor_time

LONGEST_STEP_S: Final = 1.0
"""The most that one step counts: whoever looks was stopped itself for the rest, and so was what it looks at."""

QUIET_MISSES: Final = 3
"""From so many missed beats on, the kernel is asked what the silent process did: that costs milliseconds."""

_ENOUGH: Final = 0.5
"""Share of the processor time asked for, from which on time counts in full. On a busy machine of two cores threads get
more than that; with forty busy loops beside them, a twentieth."""


class WorkingTime:
    """Measures the seconds in which `pids` could have worked: call `step` or `skip` about once a second.

    A machine that gives its processors to others makes everything slow, and nothing dead. So a second in which these
    processes waited for a processor for most of the time that they wanted one counts only in part. A second in which
    they wanted none, because they are stopped or stuck, counts in full.
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
        """Seconds since the last call, without a look at the processes: for when nobody is silent."""
        now_s = self._monotonic()
        seconds = min(max(now_s - self._at_s, 0.0), LONGEST_STEP_S)
        self._at_s, self._before = now_s, None
        return seconds

    def step(self) -> float:
        """Seconds since the last call in which the processes could have worked."""
        before, used = self._before, self._used(self._pids())
        seconds = self.skip()
        self._before = used
        return seconds if before is None else seconds * _part(before, used)


class SilenceMeter:
    """Measures for how long one process has been silent: call `heard` or `missed` about once a second.

    Beats come a little late all the time, so the first misses are counted without a look at the process.
    """

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._time, self._misses = WorkingTime(pids), 0
        self.seconds = 0.0

    def heard(self) -> None:
        self._time.skip()
        self.seconds, self._misses = 0.0, 0

    def missed(self) -> float:
        """The seconds of silence so far in which the process could have worked."""
        self._misses += 1
        self.seconds += self._time.skip() if self._misses < QUIET_MISSES else self._time.step()
        return self.seconds


def _part(before: ProcessorTime, after: ProcessorTime) -> float:
    """What a second counts, up to 1. Times fall where threads or processes have ended: nothing is known then."""
    ran_ns, waited_ns = after.ran_ns - before.ran_ns, after.waited_ns - before.waited_ns
    if ran_ns < 0 or waited_ns <= 0:
        return 1.0
    return min(ran_ns / (ran_ns + waited_ns) / _ENOUGH, 1.0)
