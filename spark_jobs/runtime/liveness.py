"""Tracks the progress of every part of this application. Without progress the lease is not renewed, and the process
ends.

Each source, the judge and every thread that sends requests to Kafka is a part. A part reports steps: a batch that was
stored, a request, a transaction, and also a wait for a broker or a locked store. A part that reports no step for longer
than any expected pause is stuck, whatever the reason: a frozen JVM, planner or worker, a lost answer, a deadlock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from service.processes.waiting import QUIET_MISSES, WorkingTime

START_S: Final = 120.0
"""Time limit (s) for the first step of a part. Before this step, a JVM and Python processes may have to start and load
classes from a cold disk."""

SOURCE_START_S: Final = 40.0
"""Time limit (s) for the first step of a source, once the JVM runs. That step takes 3 to 5 s on processors without
other work."""

MIGRATION_S: Final = 3_600.0
"""Time limit (s) of a migration, which may rewrite a large table without any report of progress. If the process is
ended in the middle, the migration begins again."""

SOURCE_S: Final = 25.0
"""Time limit (s) between two steps of a source. A source reports at least one step a second; its longest expected
pauses are a connection to an unresponsive broker and a wait for the store's lock, 5 s each."""

JUDGE_S: Final = 120.0
"""Time limit (s) between two steps of the judge. A round over a large store takes seconds."""

BACKGROUND_S: Final = 120.0
"""Time limit (s) between two steps of a background thread, such as one that sends requests to Kafka."""

END_S: Final = 20.0
"""Time limit (s) for stopping Spark. A frozen JVM never stops."""


class StuckPart(NamedTuple):
    """A part without progress. `idle_s`: the seconds since its last step or start, less the time in which the processes
    waited for a busy processor."""

    name: str
    idle_s: float


class Part:
    """A part of the application, for example a source. Any thread may report progress of the part. `pulse`: a file that
    other processes touch to report progress of the part."""

    def __init__(self, name: str, limit_s: float, start_s: float, pulse: Path | None, *, holds_lease: bool) -> None:
        self.name, self.holds_lease = name, holds_lease
        self._limit_s, self._start_s, self._pulse = limit_s, start_s, pulse
        self._steps = 0
        self._seen: tuple[int, int] = (0, 0)
        self._is_starting = True
        self._is_renewal_earned = False
        self.idle_s = 0.0
        self._quiet_checks = 0

    @property
    def pulse(self) -> str:
        """Returns the path of the file that other processes touch; "" if the part has no such file."""
        return "" if self._pulse is None else str(self._pulse)

    def step(self) -> None:
        self._steps += 1

    def note_start(self) -> None:
        """Marks the part as starting (again): until its next step, the time limit of a start applies."""
        self._is_starting = True
        self.idle_s, self._quiet_checks = 0.0, 0

    def has_progressed(self) -> bool:
        """Returns True if there was a step since the last call."""
        seen = (self._steps, 0 if self._pulse is None else _changed_ns(self._pulse))
        if seen == self._seen:
            self._quiet_checks += 1
            return False
        self._seen, self._quiet_checks, self._is_starting, self.idle_s = seen, 0, False, 0.0
        self._is_renewal_earned = True
        return True

    @property
    def is_quiet(self) -> bool:
        return self._quiet_checks >= QUIET_MISSES

    @property
    def is_stuck(self) -> bool:
        return self.idle_s > (self._start_s if self._is_starting else self._limit_s)

    @property
    def may_renew(self) -> bool:
        """Returns True if there was a step since `note_renewal`, or if the part has been starting for at most
        SOURCE_S."""
        return self._is_renewal_earned or (self._is_starting and self.idle_s <= SOURCE_S)

    def note_renewal(self) -> None:
        self._is_renewal_earned = False


class Liveness:
    """All parts of one process. `folder`: the place of the pulse files, which other processes touch to report progress
    of a part."""

    def __init__(self, pids: Callable[[], list[int]], folder: Path | None = None) -> None:
        self._clock, self._folder = WorkingTime(pids), folder
        self._parts: list[Part] = []
        self._lock = threading.Lock()

    @contextmanager
    def part(self, name: str, limit_s: float, *, start_s: float = START_S, holds_lease: bool = False) -> Iterator[Part]:
        """Yields a part that exists until the block ends. The part counts as stuck if it makes no step for longer than
        `limit_s`, or for longer than `start_s` before its first step.

        `holds_lease`: the lease is renewed only while this part makes progress.
        """
        pulse = None
        if holds_lease and self._folder is not None:
            pulse = self._folder / f"{name.replace(' ', '-')}.pulse"
            pulse.touch()
        part = Part(name, limit_s, start_s, pulse, holds_lease=holds_lease)
        part.has_progressed()  # creating the file is no step
        part.note_start()
        with self._lock:
            self._parts.append(part)
        try:
            yield part
        finally:
            with self._lock:
                self._parts.remove(part)

    def check(self) -> list[StuckPart]:
        """Returns the parts that have made no progress for too long. To be called about once a second, from one
        thread."""
        with self._lock:
            parts = list(self._parts)
        still = [part for part in parts if not part.has_progressed()]
        seconds = self._clock.step() if any(part.is_quiet for part in still) else self._clock.skip()
        for part in still:
            part.idle_s += seconds
        return [StuckPart(part.name, part.idle_s) for part in still if part.is_stuck]

    def earns_renewal(self) -> bool:
        """Returns True, and notes the renewal, if the lease may be renewed: every part that writes under the lease has
        made a step since the last renewal, or has been starting for at most SOURCE_S. So a stuck part allows at most
        one more renewal. Parts that each make a step every few seconds keep the lease."""
        with self._lock:
            parts = [part for part in self._parts if part.holds_lease]
        if not all(part.may_renew for part in parts):
            return False
        for part in parts:
            part.note_renewal()
        return True


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
