"""Makes transactions hang, one after the other, each on a partition of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple

from deploy.demo.workload.raw_producer import Connection
from tests.lab.asking import mark
from tests.lab.hangs import Hang, late_write, never_added, old_producer, orphan_producer
from tests.soak.clients import HANGS

MARKED_AFTER: Final = 3
"""After this number of further injections, an ABORT marker that ends an injected transaction is written to the
leader."""


class Injected(NamedTuple):
    """An injected transaction. `at_s` is the time (time.time()) by which Kafka had acknowledged its records."""

    hang: Hang
    at_s: float


class Injecting:
    """A context manager that makes `count` transactions hang within `seconds`. At the end of the `with` block, waits
    for the last transaction, and raises the error of an injection that failed. If the block itself raised an error,
    does not wait, and raises no other error."""

    def __init__(self, bootstrap: str, count: int, seconds: float) -> None:
        self._bootstrap, self._count, self._every_s = bootstrap, count, seconds / count
        self.injected: list[Injected] = []
        self.marked_s: dict[int, float] = {}
        """For each partition, the time just before the ABORT marker that ends the injected transaction was written to
        the leader. From this time on, the transaction may have ended."""
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Injecting:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.join(self._every_s * self._count + 120 if e is None else 0)
        if e is None and self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        began = time.monotonic()
        try:
            with Connection(self._bootstrap, threading.Event()) as connection:
                for number in range(self._count):
                    time.sleep(max(0.0, began + (number + 0.5) * self._every_s - time.monotonic()))
                    hang = _KINDS[number % len(_KINDS)](connection, number)
                    self.injected.append(Injected(hang, time.time()))
                    if number >= MARKED_AFTER:
                        self._mark(connection, self.injected[number - MARKED_AFTER].hang)
        except BaseException as e:
            self._failure = e

    def _mark(self, connection: Connection, hang: Hang) -> None:
        self.marked_s[hang.partition] = time.time()
        mark(connection, HANGS, hang.partition, hang.open, commit=False)


_KINDS: Final[tuple[Callable[[Connection, int], Hang], ...]] = (
    lambda connection, number: late_write(old_producer(connection, f"hang-{number}"), HANGS, number),
    lambda connection, number: never_added(orphan_producer(connection, f"hang-{number}"), HANGS, number),
    lambda connection, number: late_write(old_producer(connection, f"hang-{number}"), HANGS, number, commit=True),
    lambda connection, number: never_added(old_producer(connection, f"hang-{number}"), HANGS, number),
)
