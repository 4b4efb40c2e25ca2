"""Runs `txnscope watch` as a tree of processes, finds a process of each kind, and restarts the tree as systemd
would."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import psutil

from service.domain.source_state import SourceName
from service.store.schema import source_status
from tests.helpers.brokers import free_port
from tests.helpers.processes import command_of, with_environment
from tests.helpers.servers import get_json
from tests.helpers.waiting import LIMIT_S, wait_until, wait_until_equal
from tests.integration.application import Ingest

MARK: Final = "TXNSCOPE_TEST_WATCH"
"""Environment variable that all processes of a `Watch` have. The value is the URL of the store."""

SUPERVISOR: Final = "supervisor"
DRIVER: Final = "driver"
JVM: Final = "JVM"
PLANNER: Final = "planner"
DAEMON: Final = "Python daemon"
WORKER: Final = "worker"
FORK_SERVER: Final = "fork server"
SERVICE: Final = "service"
KINDS: Final = (DRIVER, JVM, FORK_SERVER, PLANNER, DAEMON, WORKER, SERVICE, SUPERVISOR)

_COMMANDS: Final = {
    DRIVER: "-m spark_jobs ",
    JVM: "org.apache.spark.deploy.SparkSubmit",
    FORK_SERVER: "-m spark_jobs.runtime.fork_server",
    SERVICE: "service.cli serve",
}
_SHOWN_AS: Final = {PLANNER: "python_streamin", DAEMON: "worker", WORKER: "worker"}
"""A mapping from kind to the name that a Python process of Spark gives itself. Most of these processes are forked, and
have the command line of the fork server."""
_RESTART_S: Final = 1.0


class Watch(Ingest):
    """Runs `txnscope watch`, in which a supervisor runs the application and the service."""

    def start(self, module: str = "service.cli") -> Watch:
        self.port = getattr(self, "port", None) or free_port()
        flags = [*self._flags, "--port", str(self.port), *self.more]
        self._run(module, "watch", *flags, environment={MARK: self.url})
        return self

    def processes(self) -> list[psutil.Process]:
        """Returns the processes, oldest first: the supervisor and all its descendants."""
        return with_environment(MARK, self.url)

    def victim(self, kind: str) -> psutil.Process:
        """Waits for a process of this kind. Returns the newest process of the kind, or the oldest if the kind is DAEMON
        or FORK_SERVER."""
        if kind == SUPERVISOR:
            return psutil.Process(self.process.pid)
        # the oldest process of its kind is the daemon or the fork server, which forked the others
        least = 2 if kind == WORKER else 1
        found = wait_until(lambda: self._of_kind(kind), lambda found: len(found) >= least, f"a {kind}")
        return found[0] if kind in (DAEMON, FORK_SERVER) else found[-1]

    def _of_kind(self, kind: str) -> list[psutil.Process]:
        words, shown_as = _COMMANDS.get(kind, ""), _SHOWN_AS.get(kind)
        found = []
        for process in self.processes():
            with suppress(psutil.Error):
                if words in f"{command_of(process)} " and shown_as in (None, process.name()):
                    found.append(process)
        return found

    def as_of_ms(self) -> dict[str, int]:
        """Returns a mapping from source to the time up to which the source was read, or to 0 if it was never read."""
        seen = {row.source: row.as_of_ms or 0 for row in self.rows(source_status)}
        return {source: seen.get(source, 0) for source in (SourceName.TRANSACTION_LOG, SourceName.PARTITIONS)}

    def is_serving(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def counts_over_rest(self, name: str) -> tuple[int, int]:
        url = f"http://127.0.0.1:{self.port}/api/v1/clusters/{self.name}/transaction?id={name}"
        counts: dict[str, Any] = get_json(url)["counts"]
        return counts["commits"], sum(counts["aborts"].values())


@contextmanager
def restarted(app: Watch) -> Iterator[Watch]:
    """Starts the application. Whenever its supervisor has ended, restarts it, as systemd or a container runtime would.
    At the end of the block, stops the application, and waits until all its processes have ended."""
    stop = threading.Event()

    def keep() -> None:
        while not stop.wait(0.1):
            if app.process.poll() is not None and not stop.wait(_RESTART_S):
                app.start()

    app.start()
    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield app
    finally:
        stop.set()
        keeper.join(LIMIT_S)
        with suppress(AssertionError):
            app.stop()
        wait_until_equal(app.processes, [], "the processes of the application")
