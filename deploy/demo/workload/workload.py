"""Runs all applications at once against one cluster: for a number of rounds in tests, or without end in the demo."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from deploy.demo.workload.app import App, AppContext
from deploy.demo.workload.audit import Audit
from deploy.demo.workload.bookkeeping import WorkloadRecord, merged
from deploy.demo.workload.clients import Stopped, create_topics
from deploy.demo.workload.inventory import Inventory
from deploy.demo.workload.plain_applications import Imports, Orders, Payments, Reports
from deploy.demo.workload.raw_producer import Connection, transaction_version, wait_for_state
from deploy.demo.workload.shipping import Shipping

ON_ANY_CLUSTER: tuple[type[App], ...] = (Orders, Payments, Shipping, Reports, Inventory, Imports)
JOIN_S = 2.0


class WorkloadError(Exception):
    """The workload cannot begin, or one of its applications failed. The message is one line; it names the application
    that failed."""


class Workload:
    """All applications: `Workload(bootstrap, seed=7).run(rounds=5)` returns the record of the run. A workload can be
    run only once.

    With the same seed, every transactional.id does the same, however the threads are scheduled. `prefix` distinguishes
    runs on one cluster. `timeout_ms`: timeout of the transactions that the workload lets time out.
    """

    def __init__(self, bootstrap: str, seed: int, *, prefix: str = "", timeout_ms: int = 5_000) -> None:
        self._context = AppContext(bootstrap, seed, prefix, timeout_ms, threading.Event())
        self._failure: WorkloadError | None = None
        self.apps: tuple[App, ...] = ()

    def run(self, rounds: int) -> WorkloadRecord:
        """Runs `rounds` steps of every application. When it returns, the coordinator reports all transactions as ended.

        Raises WorkloadError.
        """

        def work(app: App) -> None:
            for _ in range(rounds):
                app.step()

        threads = self._start(work)
        for thread in threads:
            thread.join()
        record = self._finish()
        self._settle(record)
        return record

    def run_until(self, stop: threading.Event) -> WorkloadRecord:
        """Runs every application at its own pace until `stop` is set, then waits up to two seconds for all of them.
        Transactions may stay open.

        If an application fails, stops the others in the same way, and raises WorkloadError.
        """

        def work(app: App) -> None:
            while not self._context.stop.is_set():
                app.step()
                self._context.stop.wait(app.pause_s)

        threads = self._start(work)
        while not stop.wait(0.1) and not self._context.stop.is_set():
            pass
        self._context.stop.set()
        give_up = time.monotonic() + JOIN_S
        for thread in threads:
            thread.join(max(give_up - time.monotonic(), 0))
        return self._finish()

    def prepare(self) -> None:
        """Creates the topics, and the applications that this cluster supports. Raises WorkloadError."""
        try:
            with Connection(self._context.bootstrap, self._context.stop) as connection:
                has_tv2 = transaction_version(connection) >= 2
            kinds: list[type[App]] = [*ON_ANY_CLUSTER, *([Audit] if has_tv2 else [])]
            topics = {self._context.prefix + name: count for kind in kinds for name, count in kind.topics.items()}
            create_topics(self._context.bootstrap, topics)
            self.apps = tuple(kind(self._context) for kind in kinds)
        except Exception as e:
            raise WorkloadError(f"the workload cannot begin: {e}") from e

    def _start(self, work: Callable[[App], None]) -> list[threading.Thread]:
        if not self.apps:
            self.prepare()
        # daemons: a thread that hangs in a library must not keep the process
        threads = [
            threading.Thread(target=self._guard, args=(work, app), name=app.name, daemon=True) for app in self.apps
        ]
        for thread in threads:
            thread.start()
        return threads

    def _guard(self, work: Callable[[App], None], app: App) -> None:
        try:
            work(app)
        except Stopped:
            return
        except Exception as e:
            self._failure = self._failure or WorkloadError(f"{app.name}: {type(e).__name__}: {e}")
            self._context.stop.set()
        finally:
            app.close()

    def _finish(self) -> WorkloadRecord:
        if self._failure is not None:
            raise self._failure
        return merged(app.book for app in self.apps)

    def _settle(self, record: WorkloadRecord) -> None:
        """Waits until the coordinator reports the recorded state of every id. The wait is needed because EndTxn is
        answered before the markers are written."""
        with Connection(self._context.bootstrap, self._context.stop) as connection:
            for transactional_id, account in record.items():
                assert account.state is not None, f"{transactional_id} was left open"
                wait_for_state(connection, transactional_id, account.state)
