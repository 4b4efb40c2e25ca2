"""A commit, and how long it takes until REST shows it."""

from __future__ import annotations

import time

from tests.benchmarks.watched import Rest
from tests.helpers.waiting import LIMIT_S
from tests.integration.producers import open_producer, transact

POLL_S = 0.02


class Probe:
    """An id of its own, that commits to `topic` when it is told to."""

    def __init__(self, bootstrap: str, rest: Rest, topic: str) -> None:
        self._name, self._topic, self._rest = f"probe-{time.time_ns()}", topic, rest
        self._producer = open_producer(bootstrap, self._name)
        self._commits = 0

    def commit(self) -> float:
        """Commits once. Returns the seconds from the return of the commit until REST counts it; RuntimeError if that
        does not come."""
        transact(self._producer, self._topic)
        committed = time.monotonic()
        self._commits += 1
        while self._seen() < self._commits:
            if time.monotonic() - committed > LIMIT_S:
                raise RuntimeError(f"commit {self._commits} of {self._name} is not seen within {LIMIT_S:.0f} s")
            time.sleep(POLL_S)
        return time.monotonic() - committed

    def close(self) -> None:
        self._rest.close()

    def _seen(self) -> int:
        answer = self._rest.get("/transaction", id=self._name)
        return 0 if answer is None else int(answer["counts"]["commits"])
