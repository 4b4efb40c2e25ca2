"""Runs `txnscope watch` as a user starts it. Reads its log lines with their times, and its REST answers."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import urlencode

from tests.benchmarks.program import Program
from tests.helpers.brokers import free_port
from tests.helpers.threads import repeated

CLUSTER = "bench"


class Rest:
    """A persistent connection to REST, for one thread."""

    def __init__(self, port: int, cluster: str = CLUSTER) -> None:
        self._cluster = cluster
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def get(self, path: str, **query: Any) -> Any:
        """Returns the JSON at a path below the cluster, or None if there is no answer, or its status is not 200."""
        try:
            self._connection.request("GET", f"/api/v1/clusters/{self._cluster}{path}?{urlencode(query)}")
            answer = self._connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return None
        return json.loads(body) if answer.status == 200 else None

    def close(self) -> None:
        self._connection.close()


class Watched(Program):
    """A running application. `store`: the URL of its store; None for SQLite in `directory`. `more`: further flags of
    `watch`."""

    def __init__(self, bootstrap: str, directory: Path, store: str | None = None, more: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.store = store or f"sqlite:///{directory / 'txnscope.db'}"
        where = ["--bootstrap-servers", bootstrap, "--cluster", CLUSTER, "--store", self.store]
        checkpoint = ["--checkpoint", str(directory / "checkpoint")]
        super().__init__("watch", *where, *checkpoint, "--port", str(self.port), *more)

    def rest(self) -> Rest:
        return Rest(self.port)

    def wait_until_read(self, ids: int, timeout_s: float) -> float:
        """Waits until REST shows all `ids` ids, and every partition is read to its end. Returns the seconds since the
        start. Raises RuntimeError after `timeout_s`, or if the application ends."""
        with closing(self.rest()) as rest:
            while not self._is_read(rest, ids):
                if not self.is_running:
                    raise RuntimeError("the application ended before the log was read:\n" + self.last_words())
                if self.elapsed_s() > timeout_s:
                    raise RuntimeError(f"the log was not read within {timeout_s} s:\n" + self.last_words())
                time.sleep(0.1)
            return self.elapsed_s()

    def _is_read(self, rest: Rest, ids: int) -> bool:
        coordinators = rest.get("/coordinators")
        if not coordinators or not coordinators["items"]:
            return False
        items = coordinators["items"]
        return sum(item["ids"] for item in items) >= ids and not any(item["lag"] for item in items)


class Polling:
    """Calls `look` every `every_s` until the block ends."""

    def __init__(self, rest: Rest, every_s: float) -> None:
        self._rest, self._looking = rest, repeated(self.look, every_s)

    def __enter__(self) -> Self:
        self._looking.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._looking.__exit__(None, None, None)
        self._rest.close()

    def look(self) -> None:
        """Sends the request once. A subclass notes what it needs of the answer."""
        raise NotImplementedError


@contextmanager
def watching(bootstrap: str, store: str | None = None, more: Sequence[str] = ()) -> Iterator[Watched]:
    """Runs an application on an empty store: SQLite in a new directory, or the database at the URL `store`. The
    directory is removed at the end of the block."""
    with TemporaryDirectory(prefix="txnscope-bench-") as directory:
        watched = Watched(bootstrap, Path(directory), store, more)
        try:
            yield watched
        finally:
            watched.stop()
