"""Tests of the export of metrics and traces by a process of `txnscope serve`."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.brokers import free_port
from tests.helpers.partitions import WithPartitions, hanging_finding
from tests.helpers.paths import ROOT
from tests.helpers.stores import NOW_MS
from tests.helpers.waiting import LIMIT_S, wait_until
from tests.service.otlp.receiving import Receiver, receiver, values

PUBLIC = "https://txnscope.example.org"


def stored(cluster: WithPartitions) -> None:
    cluster.read()


pytestmark = pytest.mark.cluster(stored=stored)


@contextmanager
def served(cluster: WithPartitions, to: Receiver, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    config = directory / "txnscope.toml"
    config.write_text(f'url = "{PUBLIC}"\n[otlp]\nendpoint = "{to.url}"\ninterval = "1s"\n')
    command = [sys.executable, "-m", "service.cli", "serve", "--store", cluster.url, "--port", str(free_port())]
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen([*command, "--config", str(config)], cwd=ROOT, stderr=log, stdout=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(LIMIT_S)


def test_a_service_sends_metrics_and_traces_over_a_kill(cluster: WithPartitions, tmp_path: Path) -> None:
    with receiver() as to:
        with served(cluster, to, tmp_path):
            wait_until(lambda: to.of_store and to.of_process, bool, "both kinds of metrics")
        cluster.see(hanging_finding(), now_ms=NOW_MS)
        with served(cluster, to, tmp_path):
            wait_until(lambda: to.spans, bool, "a span of the finding from the time without a service")
            (span,) = to.spans
            assert values(span)["txnscope.finding.url"].startswith(f"{PUBLIC}/clusters/orders/findings/")
    assert len({one.resource["service.instance.id"] for one in to.of_store}) == 1
    assert (tmp_path / "log").read_text().count("Traceback") == 0


def test_without_the_extra_the_service_says_what_to_install(cluster: WithPartitions, tmp_path: Path) -> None:
    config = tmp_path / "txnscope.toml"
    config.write_text('[otlp]\nendpoint = "http://127.0.0.1:1"\n')
    arguments = ["serve", "--store", cluster.url, "--port", str(free_port()), "--config", str(config)]
    without = "import sys; sys.modules['opentelemetry.sdk'] = None"
    code = f"{without}; from service.cli import main; sys.exit(main({arguments}))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert run.returncode == 2
    (line,) = run.stderr.splitlines()[-1:]
    assert line.startswith("txnscope serve: [otlp] needs the package opentelemetry.sdk")
    assert line.endswith(": pip install 'txnscope[otlp]'")


def test_a_service_ends_within_ten_seconds_while_the_endpoint_does_not_answer(
    cluster: WithPartitions, tmp_path: Path
) -> None:
    with receiver() as to:
        to.works.clear()
        with served(cluster, to, tmp_path) as process:
            wait_until(lambda: to.requests >= 2, bool, "requests without an answer")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
            assert time.monotonic() - began < 10
