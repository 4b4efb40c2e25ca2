"""`txnscope watch` as a process, as somebody who uses it starts it: what it says, when; and its REST answers."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

from tests.benchmarks.process_tree import ProcessTree
from tests.helpers.brokers import free_port
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S

CLUSTER = "bench"
END_S = LIMIT_S


class Rest:
    """One connection that is kept, for one thread."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def get(self, path: str, **query: Any) -> Any:
        """The JSON below the cluster; None while the service does not answer 200."""
        try:
            self._connection.request("GET", f"/api/v1/clusters/{CLUSTER}{path}?{urlencode(query)}")
            answer = self._connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return None
        return json.loads(body) if answer.status == 200 else None

    def close(self) -> None:
        self._connection.close()


class Watched:
    """A running application; `said` has (seconds since its start, line)."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.port = free_port()
        self.store = directory / "txnscope.db"
        self.said: list[tuple[float, str]] = []
        self.began = time.monotonic()
        arguments = ["--bootstrap-servers", bootstrap, "--cluster", CLUSTER, "--store", f"sqlite:///{self.store}"]
        arguments += ["--checkpoint", str(directory / "checkpoint"), "--port", str(self.port)]
        self.tree = ProcessTree()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "watch", *arguments],
            cwd=ROOT,
            env=self.tree.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def elapsed_s(self) -> float:
        return time.monotonic() - self.began

    def rest(self) -> Rest:
        return Rest(self.port)

    def wait_until_read(self, ids: int, timeout_s: float) -> float:
        """Seconds from the start until REST shows all `ids` ids, and every partition read to its end."""
        rest = self.rest()
        try:
            while not self._is_read(rest, ids):
                if self._process.poll() is not None or self.elapsed_s() > timeout_s:
                    raise RuntimeError(f"the log was not read within {timeout_s} s:\n" + self.last_words())
                time.sleep(0.1)
            return self.elapsed_s()
        finally:
            rest.close()

    def last_words(self) -> str:
        return "\n".join(line for _, line in self.said[-20:])

    def stop(self) -> None:
        """SIGTERM, and what Ctrl-C cannot end is killed."""
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._listener.join(5)

    def _is_read(self, rest: Rest, ids: int) -> bool:
        coordinators = rest.get("/coordinators")
        if not coordinators or not coordinators["items"]:
            return False
        items = coordinators["items"]
        return sum(item["ids"] for item in items) >= ids and not any(item["lag"] for item in items)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.said.append((self.elapsed_s(), line.rstrip()))


@contextmanager
def watching(bootstrap: str) -> Iterator[Watched]:
    """On an empty store in a directory that is gone in the end."""
    with TemporaryDirectory(prefix="txnscope-bench-") as directory:
        watched = Watched(bootstrap, Path(directory))
        try:
            yield watched
        finally:
            watched.stop()
