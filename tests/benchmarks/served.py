"""Runs a `txnscope serve` process over a store, and one client with one persistent connection."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from service.api.http.fields import API
from tests.benchmarks.large_store import CLUSTER
from tests.helpers.brokers import free_port
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_for

START_S = 30.0


class Client:
    """A client of the service with process id `pid`."""

    def __init__(self, port: int, pid: int) -> None:
        self.port, self.pid = port, pid
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def get(self, path: str, **headers: str) -> bytes:
        """Returns the body of the answer. Raises RuntimeError if its status is not 200."""
        self._connection.request("GET", path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body.decode(errors='replace')}")
        return body

    def wait_until_ready(self) -> None:
        def answer() -> bytes:
            self._connection.close()
            return self.get("/-/ready")

        wait_for(answer, "the service", START_S, retry_on=(OSError, http.client.HTTPException, RuntimeError))

    def close(self) -> None:
        self._connection.close()


def of_cluster(path: str, **query: Any) -> str:
    """Returns a URL path below the cluster. Texts and bytes are percent-encoded. For a list, the parameter is
    repeated."""
    return f"{API}/clusters/{CLUSTER}{path}?{urlencode(query, doseq=True, quote_via=quote)}"


def items_of(body: bytes) -> int:
    """Returns the number of items in a list, or 1 for a single object."""
    answer = json.loads(body)
    return len(answer["items"]) if "items" in answer else 1


@contextmanager
def serving(store: str) -> Iterator[Client]:
    port = free_port()
    command = [sys.executable, "-m", "service.cli", "serve", "--store", store, "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = Client(port, process.pid)
    try:
        client.wait_until_ready()
        yield client
    finally:
        client.close()
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
