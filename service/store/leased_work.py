"""Runs work in threads of the one process that holds a lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from sqlalchemy import Engine

from service.processes.identity import own_identity
from service.store import lease
from service.store.errors import LeaseLost, StoreError
from service.store.lease import Lease
from service.store.standby import LOOK_EVERY_S, Standby

RENEW_EVERY_S: Final = 1.0
_ENDS_WITHIN_S: Final = 60.0


class Work(NamedTuple):
    """The work of one thread. `run` gets an event that is set when the lease is lost or the process stops. If `run`
    notices first that the lease is lost, it sets the event itself."""

    name: str
    run: Callable[[threading.Event], None]


class LeasedWork:
    """Until `stop`: waits for a lease, does the work until the lease is lost, and waits again.

    `begin` is called with each new lease, and returns the work. `begin` may raise StoreError, including LeaseLost.
    """

    def __init__(
        self,
        engine: Engine,
        lease_id: int,
        name: str,
        begin: Callable[[Lease], Sequence[Work]],
        now_ms: Callable[[], int],
    ) -> None:
        self._engine, self._lease_id, self._begin, self._now_ms = engine, lease_id, begin, now_ms
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Ends the work. Returns after at most `within_s`, even if threads still work."""
        self._stopping.set()
        self._thread.join(within_s)

    def _run(self) -> None:
        standby = Standby(self._engine, self._lease_id, own_identity())
        while not self._stopping.is_set():
            with suppress(StoreError):
                if (held := standby.acquire(self._now_ms())) is not None:
                    self._work(held)
            self._stopping.wait(LOOK_EVERY_S)

    def _work(self, held: Lease) -> None:
        """Does the work until the lease is lost or `stop` is called; then ends the threads and releases the lease."""
        ending = threading.Event()
        threads = [
            threading.Thread(target=work.run, args=(ending,), name=work.name, daemon=True) for work in self._begin(held)
        ]
        for thread in threads:
            thread.start()
        try:
            while not ending.is_set() and not self._stopping.wait(RENEW_EVERY_S):
                with suppress(StoreError):
                    try:
                        lease.renew(self._engine, held, self._now_ms())
                    except LeaseLost:
                        return
        finally:
            ending.set()
            for thread in threads:
                thread.join(_ENDS_WITHIN_S)
            with suppress(StoreError):
                lease.release(self._engine, held)
