"""Ends the process when it cannot work any more; the supervisor, a separate process, starts it again.

A thread checks once a second. While all parts make progress and Spark's JVM runs, the thread reports to the supervisor
that the process works. With `--liveness`, the thread also touches a file, or lets a port answer 200. If a part is stuck
or the JVM has ended, the thread writes one line to the log and ends the process.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from service.processes.identity import ending_of
from spark_jobs.runtime.liveness import Liveness

log = logging.getLogger("txnscope.ingest")

CHECK_EVERY_S: Final = 1.0
STUCK: Final = 1
"""Exit code of a process that ends because it cannot continue. The supervisor starts it again."""

_PAGE: Final = re.compile(r"(?:(?P<host>[^/\[\]:]+|\[[^/\[\]]+\]):)?(?P<port>\d{1,5})")


class BadLiveness(Exception):
    """The file or port of `--liveness` cannot be used. The message is one line."""


class Watchdog:
    """The watchdog of one process. Call `begin` once. While all parts make progress, the watchdog calls `beat`
    and, if given, `report_liveness`. `beat` reports to the supervisor; `report_liveness` reports as `--liveness`
    requires."""

    def __init__(
        self, liveness: Liveness, beat: Callable[[], None], report_liveness: Callable[[], None] | None = None
    ) -> None:
        self._liveness, self._beat, self._report_liveness = liveness, beat, report_liveness
        self._jvm: subprocess.Popen[bytes] | None = None
        self._may_jvm_end = False
        self._is_ending = threading.Event()

    def begin(self) -> None:
        threading.excepthook = self._end_with_thread
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def guard(self, jvm: subprocess.Popen[bytes]) -> None:
        """Makes the watchdog end the process if `jvm` ends."""
        self._jvm = jvm

    def allow_jvm_end(self) -> None:
        """Makes the watchdog accept the end of the JVM from now on. To be called before the application stops the
        JVM."""
        self._may_jvm_end = True

    def end(self) -> None:
        """Stops the watchdog, because the application ends by itself."""
        self._is_ending.set()

    def _watch(self) -> None:
        while not self._is_ending.wait(CHECK_EVERY_S):
            stuck = self._liveness.check()
            self._end_with_jvm()
            if stuck:
                names = ", ".join(f"{stuck_part.name} for {stuck_part.idle_s:.0f} s" for stuck_part in stuck)
                self._end(f"no progress of {names}: this process ends, and the supervisor starts it again")
            self._beat()
            if self._report_liveness is not None:
                self._report_liveness()

    def _end_with_jvm(self) -> None:
        if self._jvm is not None and not self._may_jvm_end and (code := self._jvm.poll()) is not None:
            self._end(f"Spark's JVM {ending_of(code)}: this process ends, and the supervisor starts it again")

    def _end_with_thread(self, failure: threading.ExceptHookArgs) -> None:
        """Ends the process after an uncaught exception in a thread: the thread's work would no longer be done."""
        if self._jvm is not None:  # threads that use the JVM end with it, a moment before `poll` reports its end
            with suppress(subprocess.TimeoutExpired):
                self._jvm.wait(1)
        self._end_with_jvm()
        name = "a thread" if failure.thread is None else f"thread {failure.thread.name!r}"
        self._end(
            f"{name} failed with {failure.exc_type.__name__}: {failure.exc_value}: this process ends, and the"
            " supervisor starts it again"
        )

    def _end(self, why: str) -> None:
        if self._is_ending.is_set():
            return
        log.error("%s", " ".join(why.split()))
        if self._jvm is not None and self._jvm.poll() is None:
            self._jvm.kill()  # a frozen JVM would live on and keep its memory
        logging.shutdown()
        os._exit(STUCK)


def liveness_reporter(where: str) -> Callable[[], None]:
    """Returns a function to call once a second while all parts make progress. If `where` is [HOST:]PORT, a page at this
    port answers 200 after the first call. Otherwise the function touches the file `where`. An IPv6 address has to be in
    brackets.

    Raises BadLiveness if the port cannot be opened or the file cannot be written.
    """
    page = _PAGE.fullmatch(where)
    try:
        if page is None:
            file = Path(where)
            file.touch()
            return file.touch
        server = _LivenessPage((page["host"] or "127.0.0.1").strip("[]"), int(page["port"]))
    except (OSError, OverflowError) as e:
        raise BadLiveness(f"liveness {where}: {getattr(e, 'strerror', None) or e}") from e
    threading.Thread(target=server.serve_forever, name="liveness", daemon=True).start()
    return server.is_well.set


class _LivenessPage(ThreadingHTTPServer):
    """A page that answers 503 until all parts make progress for the first time, and 200 from then on. A stuck process
    ends itself, and a frozen process does not answer."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.is_well = threading.Event()
        super().__init__((str(address[0]), port), _Answer)


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_well = isinstance(self.server, _LivenessPage) and self.server.is_well.is_set()
        body = b"alive\n" if is_well else b"starting\n"
        self.send_response(200 if is_well else 503)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing, because probes come every few seconds."""
