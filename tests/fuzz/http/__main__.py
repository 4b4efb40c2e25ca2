"""Sends many mutated requests to a service of its own: `python -m tests.fuzz.http --requests 100000 --seed 1`.

The service must not answer with a 5xx (except 503 for lack of brokers), must not log a traceback, and has to be healthy
afterwards.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.fuzz.http.requests import CLUSTER, make
from tests.helpers.brokers import free_port
from tests.helpers.findings import WithFindings, observe
from tests.helpers.paths import ROOT
from tests.helpers.stores import mixed_ids
from tests.helpers.waiting import ANSWER_S, wait_for

THREADS: Final = 8
TOLD_EVERY: Final = 10_000
FAULTS_SHOWN: Final = 10
CLOSED: Final = "closed"
UNFINISHED: Final = "unfinished"
NO_BROKERS: Final = "no brokers"
"""The outcome of a request that needs Kafka. The service has no brokers, and answers 503 with this reason."""
PATIENCE_S: Final = 2.0
"""Time limit for an answer. Most requests without an answer are incomplete, so the service waits for their rest."""


class Service(NamedTuple):
    process: subprocess.Popen[bytes]
    port: int
    log: Path


class Answer(NamedTuple):
    """The outcome of a request: its status, NO_BROKERS, CLOSED or UNFINISHED."""

    number: int
    outcome: str


def main() -> int:
    """Returns the exit code: 0 if all checks passed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.http", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="send only the request with this number")
    options = parser.parse_args()
    numbers = range(options.requests) if options.only is None else [options.only]
    outcomes, faults, began = Counter[str](), list[str](), time.monotonic()
    with serving() as service, ThreadPoolExecutor(THREADS) as threads:
        for done, answer in enumerate(threads.map(lambda n: ask(service.port, options.seed, n), numbers), 1):
            outcomes[answer.outcome] += 1
            if answer.outcome.startswith("5"):
                faults.append(
                    f"{answer.outcome}: python -m tests.fuzz.http --seed {options.seed} --only {answer.number}"
                )
            if done % TOLD_EVERY == 0:
                print(f"{done:,} of {len(numbers):,}, {len(faults)} faults", file=sys.stderr, flush=True)
        seconds = time.monotonic() - began
        if service.process.poll() is not None:
            faults.append(f"the service ended: {service.process.returncode}")
        elif status(service.port, b"GET /-/healthy HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") != "200":
            faults.append("the service is not healthy afterwards")
        log = service.log.read_text(errors="replace")
    faults += ["a traceback in the log:\n" + log[-4_000:]] if "Traceback" in log else []
    for fault in faults[:FAULTS_SHOWN]:
        print(fault)
    reported = ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(outcomes.items()))
    print(f"{len(numbers):,} requests, {len(numbers) / seconds:,.0f} a second: {reported}; {len(faults)} faults")
    return 1 if faults else 0


@contextmanager
def serving() -> Iterator[Service]:
    """Runs a service over a small store: ids in all states, and a finding. Requests that read need no
    authentication."""
    with tempfile.TemporaryDirectory(prefix="txnscope-fuzz-") as directory:
        cluster = WithFindings(f"sqlite:///{directory}/store.db", CLUSTER)
        cluster.read(mixed_ids())
        cluster.see(observe())
        cluster.close()
        port, log = free_port(), Path(directory, "log")
        command = [sys.executable, "-m", "service.cli", "serve", "--store", cluster.url, "--port", str(port)]
        with log.open("wb") as errors, subprocess.Popen(command, cwd=ROOT, stderr=errors) as process:
            try:
                ready = b"GET /-/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                wait_for(lambda: status(port, ready) == "200", "the service to be ready", retry_on=(OSError,))
                yield Service(process, port, log)
            finally:
                process.terminate()


def ask(port: int, seed: int, number: int) -> Answer:
    request = make(seed, number)
    outcome = status(port, request)
    if outcome == "503" and request.startswith(b"HEAD "):  # this answer has no body that gives the reason
        outcome = status(port, request.replace(b"HEAD", b"GET", 1))
    return Answer(number, outcome)


def status(port: int, request: bytes) -> str:
    """Sends the request on a new connection, which stays open for writing. Returns the status of the answer, and "5xx"
    for an answer that is not HTTP/1.1. In place of a status, returns CLOSED or UNFINISHED if there is no answer, and
    NO_BROKERS if the answer gives this reason."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as client:
        client.settimeout(PATIENCE_S)
        try:
            client.sendall(request)
            received = _beginning(client)
        except TimeoutError:
            return UNFINISHED
        except (ConnectionResetError, BrokenPipeError):
            return CLOSED
    if not received:
        return CLOSED
    if b"urn:txnscope:no-brokers" in received:
        return NO_BROKERS
    return received.split(b" ", 2)[1].decode() if received.startswith(b"HTTP/1.1 ") else f"5xx: {received[:80]!r}"


def _beginning(client: socket.socket) -> bytes:
    """Returns the beginning of the answer, with at least its first line. If the status is 5xx, returns the answer up to
    its end, or up to the end of a JSON object."""
    received = b""
    while b"\r\n" not in received or received.startswith(b"HTTP/1.1 5"):
        chunk = client.recv(65_536)
        received += chunk
        if not chunk or b'"}' in chunk[-4:]:
            break
    return received


if __name__ == "__main__":
    sys.exit(main())
