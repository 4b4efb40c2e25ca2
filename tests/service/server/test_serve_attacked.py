"""Tests of `txnscope serve` with more connections than file descriptors. Also tests streams at shutdown, and the memory
of threads."""

from __future__ import annotations

import http.client
import platform
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.brokers import free_port
from tests.helpers.findings import WithFindings
from tests.helpers.paths import ROOT
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_for
from tests.service.server.receiving import everything

pytestmark = pytest.mark.in_turns

FILES, HALF_OPEN, STREAMS = 1_024, 1_100, 50
WATCHED = ("/-/healthy", "/-/ready", "/metrics", "/clusters/orders")


class Served(NamedTuple):
    process: subprocess.Popen[str]
    port: int
    log: Path

    def status(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def connect(self, sent: bytes) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)
        client.sendall(sent)
        return client


@pytest.fixture
def more_files() -> Iterator[None]:
    """Raises the limit of open files of this process, which runs the clients."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8_192, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def served(tmp_path: Path, more_files: None) -> Iterator[Served]:
    cluster = WithFindings(f"sqlite:///{tmp_path}/store.db")
    cluster.read()
    cluster.close()
    port, log = free_port(), tmp_path / "log"
    command = ["prlimit", f"--nofile={FILES}", sys.executable, "-m", "service.cli", "serve"]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*command, "--store", cluster.url, "--port", str(port)], cwd=ROOT, stderr=errors, text=True
        ) as process,
    ):
        served = Served(process, port, log)
        try:
            wait_for(lambda: served.status("/-/ready") == 200, "the service to be ready", retry_on=(OSError,))
            yield served
        finally:
            process.kill()


def test_connections_that_only_wait_do_not_block_other_clients(served: Served) -> None:
    waiting = [served.connect(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: ") for _ in range(HALF_OPEN)]
    for _ in range(3):
        assert [served.status(path) for path in WATCHED] == [200] * len(WATCHED)
    closed = [everything(client) for client in waiting]
    assert len(closed) == HALF_OPEN, "the server closes every connection that only waits"
    assert [served.status(path) for path in WATCHED] == [200] * len(WATCHED)
    assert served.log.read_text().splitlines() == [f"serving http://127.0.0.1:{served.port}"]


def test_garbage_fills_no_log(served: Served) -> None:
    for _ in range(300):
        everything(served.connect(b"\x16\x03\x01 garbage \x00\r\n\r\n"))
    assert served.status("/-/healthy") == 200
    assert len(served.log.read_text().splitlines()) < 20


def test_streams_end_quietly_with_the_service(served: Served) -> None:
    streams = [served.connect(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(STREAMS)]
    for stream in streams:
        assert stream.recv(65_536).startswith(b"HTTP/1.1 200")
    served.process.send_signal(signal.SIGTERM)
    assert all(everything(stream).endswith(b"0\r\n\r\n") for stream in streams), "each stream ends with its last chunk"
    assert served.process.wait(LIMIT_S) == 0
    assert served.log.read_text().splitlines() == [f"serving http://127.0.0.1:{served.port}"]


ARENA_MB = 64
"""The address space in MB that glibc reserves for one malloc arena."""
THREADS = 16
PROGRAM = f"""
import threading
import psutil
from service.server import running

running.prepare()
threading.stack_size(1 << 20)
before = psutil.Process().memory_info().vms
all_at_once = threading.Barrier({THREADS} + 1)

def allocate():
    kept = [bytes(100_000) for _ in range(10)]
    all_at_once.wait()
    all_at_once.wait()

threads = [threading.Thread(target=allocate) for _ in range({THREADS})]
for one in threads:
    one.start()
all_at_once.wait()
print((psutil.Process().memory_info().vms - before) >> 20)
all_at_once.wait()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_threads_share_one_arena() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert int(said.stdout) < ARENA_MB * 2, "growth of the address space in MB"
