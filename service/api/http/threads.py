"""Threads of one purpose, beside those that all other requests share: who uses them does not wait for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

Result = TypeVar("Result")


class OwnThreads:
    """At most `number` threads of each event loop. `purpose` tells them apart."""

    def __init__(self, purpose: str, number: int) -> None:
        self._number = number
        self._limiter: RunVar[CapacityLimiter] = RunVar(purpose)

    async def run(self, work: Callable[[], Result]) -> Result:
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = CapacityLimiter(self._number)
            self._limiter.set(limiter)
        return await to_thread.run_sync(work, limiter=limiter)
