"""Starts and ends everything that runs in the demo: a broker, the product as a user starts it, the workload, and the
monitoring."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType

from deploy.demo import scenarios
from deploy.demo.broker import Broker
from deploy.demo.child_process import ChildProcess, ignore_signals
from deploy.demo.monitoring import Monitoring, find_programs
from deploy.demo.options import PROPERTIES, WORKLOAD_TIMEOUT_MS, Options
from deploy.demo.scenarios import REFUNDS, ScenarioError
from deploy.demo.tour import API, CLUSTER, stops
from deploy.demo.webhook import Notice, Webhook
from deploy.demo.workload.app import App
from deploy.demo.workload.workload import Workload, WorkloadError
from service.http_client import NoAnswer, send

SEED = 1
READY_TIMEOUT_S = 900.0  # enough at a tenth of the usual speed; longer than the applications' PATIENCE_S
WORKLOAD_END_S = 3.0
PRODUCT_END_S = 14.0
TAIL_LINES = 20
OPERATOR = "demo"
APPLICATIONS = "(?P<name>[a-z]+(-[a-z]+)?)(-[0-9]+)?"
"""The rule that finds the name of the application in an id of the demo: "refunds-1" belongs to "refunds"."""
_HANGING = f"{API}/findings?kind=hanging_transaction&status=confirmed&topic={REFUNDS}"
_TICK_S = 0.2
_CONFIG = """[[notify]]
name = "demo"
kind = "webhook"
url = "{url}"

[canary]
"""


class ProgramEnded(Exception):
    """A program that should run has ended, the workload or a scenario has failed, or the demo was not ready in time.
    The message names the failure, if possible with the end of a log."""


class DemoEnvironment:
    """`with DemoEnvironment(options, directory, on_alert) as demo:` starts all programs. After the block, all of them
    have ended.

    With `options.monitoring_ports`, `on_alert` is called, in another thread, with each change of an alert or a finding.
    Without them, it is never called. The start raises BrokerError, JarsError, WorkloadError, JavaNotFound,
    NotInstalled.
    """

    def __init__(self, options: Options, directory: Path, on_alert: Callable[[Notice], None]) -> None:
        self._options, self._directory, self._on_alert = options, directory, on_alert
        self._monitoring: Monitoring | None = None
        self._ending = ExitStack()
        self._broker = Broker(options.kafka_version, options.kafka_port, directory / "kafka", PROPERTIES)
        self._stop = threading.Event()
        self._failure: str | None = None

    @property
    def apps(self) -> tuple[App, ...]:
        return self._workload.apps

    @property
    def key_file(self) -> Path:
        """Returns the path of the file with the key of an operator. An operator may end hanging transactions."""
        return self._directory / "operator.key"

    def __enter__(self) -> DemoEnvironment:
        with ExitStack() as starting:
            try:
                self._start(starting)
            except BaseException:
                ignore_signals()
                raise
            self._ending = starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        ignore_signals()
        self._ending.close()

    def wait_until_ready(self) -> str:
        """Waits until every path of the tour answers. Returns the id of the finding about the hanging transaction.
        Raises ProgramEnded."""
        give_up = time.monotonic() + READY_TIMEOUT_S
        self._wait_for("/-/ready", give_up)
        while not (found := json.loads(self._wait_for(_HANGING, give_up))["items"]):
            self._pause(give_up, f"no hanging transaction is confirmed on {REFUNDS}")
        finding = str(found[0]["id"])
        for tour_stop in stops(self.apps, finding):
            self._wait_for(tour_stop.path, give_up)
        if self._options.monitoring_ports is not None:
            for port in self._options.monitoring_ports:
                self._wait_for("/-/ready", give_up, port)
        return finding

    def run_for(self, seconds: float | None) -> None:
        """Keeps the demo running for `seconds`; None: forever. Raises ProgramEnded."""
        leave = time.monotonic() + seconds if seconds else None
        while leave is None or time.monotonic() < leave:
            self.check()
            time.sleep(_TICK_S)

    def check(self) -> None:
        """Raises ProgramEnded if a program that should run has ended, or if the workload or a scenario has failed."""
        if (code := self._broker.poll()) is not None:
            raise ProgramEnded(
                f"the Kafka broker ended with code {code}; its log ends:\n{self._broker.log_tail(TAIL_LINES)}"
            )
        if (code := self._product.poll()) is not None:
            raise ProgramEnded(f"txnscope ended with code {code}; its log ends:\n{self._tail()}")
        if self._monitoring is not None and (ended := self._monitoring.ended_program(TAIL_LINES)) is not None:
            raise ProgramEnded(ended)
        if self._failure is not None:
            raise ProgramEnded(self._failure)

    def _start(self, ending: ExitStack) -> None:
        """Starts all parts. Adds to `ending` a callback for the end of each part. The callback that was added last runs
        first."""
        webhook = ending.enter_context(Webhook(self._on_alert)) if self._options.monitoring_ports else None
        self._product = self._start_product(webhook)
        ending.callback(self._product.stop, PRODUCT_END_S)
        if self._options.monitoring_ports is not None and webhook is not None:
            self._monitoring = Monitoring(
                find_programs(), self._options.monitoring_ports, self._directory, self._options.port, webhook.url
            )
            ending.callback(self._monitoring.kill)
            self._monitoring.start()
        ending.callback(self._broker.kill)  # its data are not needed any more
        self._broker.start()
        self._workload = Workload(self._broker.bootstrap, SEED, timeout_ms=WORKLOAD_TIMEOUT_MS)
        self._workload.prepare()
        for name, run in (
            ("the workload", partial(self._workload.run_until, self._stop)),
            ("a scenario", partial(scenarios.run_until, self._broker.bootstrap, self._stop)),
        ):
            thread = threading.Thread(target=self._run, args=(name, run), name=name, daemon=True)
            thread.start()
            ending.callback(thread.join, WORKLOAD_END_S)
        ending.callback(self._stop.set)
        ending.callback(self._product.signal, signal.SIGTERM)

    def _start_product(self, receiver: Webhook | None) -> ChildProcess:
        """Starts txnscope. With a `receiver`, txnscope sends notifications of findings to this receiver, and runs a
        canary. Called before the broker is started, because both starts take long and txnscope waits for the broker."""
        store = f"sqlite:///{self._directory / 'txnscope.db'}"
        where = ["--bootstrap-servers", self._broker.bootstrap, "--cluster", CLUSTER, "--store", store]
        scratch = ["--checkpoint", str(self._directory / "checkpoint"), "--port", str(self._options.port)]
        if receiver is not None:
            config = self._directory / "txnscope.toml"
            config.write_text(_CONFIG.format(url=receiver.url))
            scratch += ["--config", str(config)]
        key = secrets.token_hex(16)
        self.key_file.touch(0o600)
        self.key_file.write_text(f"{key}\n")
        environment = os.environ | {
            "TMPDIR": str(self._directory),  # files that a killed product leaves behind are removed with the directory
            "TXNSCOPE_OPERATORS": json.dumps({OPERATOR: key}),
            "TXNSCOPE_APPLICATIONS": json.dumps([{"pattern": APPLICATIONS}]),
        }
        with self._log.open("wb") as log:
            return ChildProcess([sys.executable, "-m", "service.cli", "watch", *where, *scratch], log, environment)

    def _run(self, name: str, run: Callable[[], object]) -> None:
        try:
            run()
        except (WorkloadError, ScenarioError) as e:
            self._failure = self._failure or f"{name} failed: {e}"

    def _wait_for(self, path: str, give_up: float, port: int | None = None) -> bytes:
        """Waits until a GET of `path` has status 200, and returns the body. Asks the product, or the server at `port`.
        Raises ProgramEnded."""
        while True:
            status, body = _get(port or self._options.port, path)
            if status == 200:
                return body
            self._pause(give_up, f"{path} answers {status}" if status else f"{path} does not answer")

    def _pause(self, give_up: float, why: str) -> None:
        self.check()
        if time.monotonic() > give_up:
            raise ProgramEnded(f"{why} after {READY_TIMEOUT_S:.0f} s\n{self._tail()}")
        time.sleep(_TICK_S)

    @property
    def _log(self) -> Path:
        return self._directory / "txnscope.log"

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:])


def _get(port: int, path: str) -> tuple[int | None, bytes]:
    """Returns status and body of a GET; None and an empty body if there is no answer."""
    try:
        answer = send("GET", f"http://127.0.0.1:{port}{path}", {}, timeout_s=5, most_bytes=None)
    except NoAnswer:
        return None, b""
    return answer.status, answer.body
