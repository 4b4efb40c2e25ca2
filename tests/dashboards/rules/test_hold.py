"""Tests an alert about a hanging transaction, with a real Prometheus and the metrics of a real service. The alert must
stay while the service is down and after a restart of Prometheus. The alert must end when the service reports the end of
the transaction."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest
import yaml

from dashboards.rules.build import RULES
from service.metrics.page import Metrics
from service.store.engine import open_reader
from tests.dashboards.rules.files import FOLDER
from tests.helpers.brokers import free_port
from tests.helpers.partitions import WithPartitions, hanging_finding, stalled_partition
from tests.helpers.servers import get_json
from tests.helpers.stores import NOW_MS, open_id
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until_equal

HANGING: Final = "KafkaTransactionHanging"
EVERY: Final = "1s"


def stored(cluster: WithPartitions) -> None:
    cluster.read([open_id("pay", 90_000, "orders")])
    cluster.look(stalled_partition())
    cluster.see(hanging_finding())


pytestmark = pytest.mark.cluster(stored=stored)


class Exporter:
    """Serves the metrics of the store between `start` and `stop`, always on the same port."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._now_ms = NOW_MS
        self._server: ThreadingHTTPServer | None = None
        self.port = free_port()

    def start(self) -> None:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter._now_ms += 1_000  # a page is kept for a second
                body, headers = exporter._metrics.render("", "", exporter._now_ms)
                self.send_response(200)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@pytest.fixture
def exporter(cluster: WithPartitions) -> Iterator[Exporter]:
    reader = open_reader(cluster.url)
    exporter = Exporter(Metrics(reader))
    exporter.start()
    yield exporter
    exporter.stop()
    reader.dispose()


@contextmanager
def prometheus(folder: Path, target: int, port: int) -> Iterator[str]:
    """Yields the address of a Prometheus that uses the shipped rules, and that scrapes and evaluates once a second. The
    data of Prometheus stay in `folder`. Skips the test if Prometheus is not installed."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (make system-packages)")
    rules = (FOLDER / RULES).read_text("utf-8")
    (folder / RULES).write_text(re.sub(r"interval: \d+s", f"interval: {EVERY}", rules), "utf-8")
    config = {
        "global": {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY},
        "rule_files": [RULES],
        "scrape_configs": [{"job_name": "txnscope", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    given = (f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}")
    with (folder / "log").open("ab") as log:
        running = subprocess.Popen([program, *given, f"--web.listen-address=127.0.0.1:{port}"], stderr=log, stdout=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            running.terminate()
            running.wait(LIMIT_S)


def firing(url: str) -> set[str]:
    """Returns the names of the alerts that fire, except the heartbeat."""
    found = get_json(f"{url}/api/v1/alerts")["data"]["alerts"]
    return {one["labels"]["alertname"] for one in found if one["state"] == "firing"} - {"KafkaTxnWatchdog"}


def scrapes(url: str, up: int) -> bool:
    found = get_json(f"{url}/api/v1/query?query=count_over_time(up[1m])%20and%20up%20%3D%3D%20{up}")["data"]["result"]
    return bool(found) and int(found[0]["value"][1]) >= 5


def wait_for_firing(url: str, expected: bool) -> None:
    wait_until_equal(lambda: HANGING in firing(url), expected, f"{HANGING} of {url}", retry_on=(OSError,))


@pytest.mark.in_turns
def test_the_alert_outlives_the_service_and_prometheus_and_ends_with_the_transaction(
    cluster: WithPartitions, exporter: Exporter, tmp_path: Path
) -> None:
    port = free_port()
    with prometheus(tmp_path, exporter.port, port) as url:
        wait_for_firing(url, True)
        exporter.stop()
        wait_for(partial(scrapes, url, 0), "scrapes that fail", retry_on=(OSError,))
        assert HANGING in firing(url)
    with prometheus(tmp_path, exporter.port, port) as url:
        wait_for_firing(url, True)
        wait_for(partial(scrapes, url, 0), "scrapes that fail after the restart", retry_on=(OSError,))
        assert HANGING in firing(url)
        exporter.start()
        wait_for(partial(scrapes, url, 1), "scrapes of the service", retry_on=(OSError,))
        assert HANGING in firing(url)
        cluster.see()
        wait_for_firing(url, False)
        exporter.stop()
        wait_for(partial(scrapes, url, 0), "scrapes that fail again", retry_on=(OSError,))
        assert HANGING not in firing(url), "an alert that has ended must not fire again"
