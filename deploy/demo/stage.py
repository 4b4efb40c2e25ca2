"""Everything that runs in the demo: a broker, the product as a user starts it, and the workload."""

from __future__ import annotations

import http.client
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from deploy.demo import troubles
from deploy.demo.broker import Broker
from deploy.demo.leash import Leashed
from deploy.demo.options import Options
from deploy.demo.properties import PROPERTIES, WORKLOAD_TIMEOUT_MS
from deploy.demo.signals import ignore_signals
from deploy.demo.tour import CLUSTER, sights
from deploy.demo.troubles import TroubleError
from deploy.demo.workload.app import App
from deploy.demo.workload.workload import Workload, WorkloadError

SEED = 1
READY_TIMEOUT_S = 180.0
WORKLOAD_END_S = 3.0
PRODUCT_END_S = 14.0
TAIL_LINES = 20
_TICK_S = 0.2


class Died(Exception):
    """Something that should run does not; says what, with the end of its log."""


class Stage:
    """`with Stage(options, directory) as stage:` everything is started; all of it has ended after the block.

    Raises BrokerError, JarsError, WorkloadError, JavaNotFound at the start.
    """

    def __init__(self, options: Options, directory: Path) -> None:
        self._options, self._directory = options, directory
        self._ending = ExitStack()
        self._broker = Broker(options.kafka_version, options.kafka_port, directory / "kafka", PROPERTIES)
        self._stop = threading.Event()
        self._workload_failed: WorkloadError | None = None
        self._trouble_failed: TroubleError | None = None

    @property
    def apps(self) -> tuple[App, ...]:
        return self._workload.apps

    def __enter__(self) -> Stage:
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

    def wait_until_ready(self) -> None:
        """Until everything that the tour points at is there. Raises Died."""
        give_up = time.monotonic() + READY_TIMEOUT_S
        for path in ("/-/ready", *(sight.path for sight in sights(self.apps))):
            while (status := self._get(path)) != 200:
                self.check()
                if time.monotonic() > give_up:
                    answer = f"answers {status}" if status else "does not answer"
                    raise Died(f"{path} {answer} after {READY_TIMEOUT_S:.0f} s\n{self._tail()}")
                time.sleep(_TICK_S)

    def stay(self, seconds: float | None) -> None:
        """For so long, or for ever. Raises Died."""
        leave = time.monotonic() + seconds if seconds else None
        while leave is None or time.monotonic() < leave:
            self.check()
            time.sleep(_TICK_S)

    def check(self) -> None:
        """Raises Died when something ended that should run."""
        if (code := self._broker.poll()) is not None:
            raise Died(f"the Kafka broker ended with code {code}; its log ends:\n{self._broker.log_tail(TAIL_LINES)}")
        if (code := self._product.poll()) is not None:
            raise Died(f"txnscope ended with code {code}; its log ends:\n{self._tail()}")
        if self._workload_failed is not None:
            raise Died(f"the workload failed: {self._workload_failed}")
        if self._trouble_failed is not None:
            raise Died(f"the trouble could not be made: {self._trouble_failed}")

    def _start(self, ending: ExitStack) -> None:
        """`ending` gets what ends each part; the last added is done first."""
        self._product = self._start_product()
        ending.callback(self._product.stop, PRODUCT_END_S)
        ending.callback(self._broker.kill)  # its data are thrown away
        self._broker.start()
        self._workload = Workload(self._broker.bootstrap, SEED, timeout_ms=WORKLOAD_TIMEOUT_MS)
        self._workload.prepare()
        for work in (self._work, self._make_trouble):
            thread = threading.Thread(target=work, name=work.__name__, daemon=True)
            thread.start()
            ending.callback(thread.join, WORKLOAD_END_S)
        ending.callback(self._stop.set)
        ending.callback(self._product.signal, signal.SIGTERM)

    def _start_product(self) -> Leashed:
        """Before the broker, because the product waits for one and both take their time."""
        store = f"sqlite:///{self._directory / 'txnscope.db'}"
        where = ["--bootstrap-servers", self._broker.bootstrap, "--cluster", CLUSTER, "--store", store]
        scratch = ["--checkpoint", str(self._directory / "checkpoint"), "--port", str(self._options.port)]
        # what it leaves behind when it has to be killed goes with the directory
        environment = os.environ | {"TMPDIR": str(self._directory)}
        with self._log.open("wb") as log:
            return Leashed([sys.executable, "-m", "service.cli", "watch", *where, *scratch], log, environment)

    def _work(self) -> None:
        try:
            self._workload.run_until(self._stop)
        except WorkloadError as e:
            self._workload_failed = e

    def _make_trouble(self) -> None:
        try:
            troubles.run_until(self._broker.bootstrap, self._stop)
        except TroubleError as e:
            self._trouble_failed = e

    def _get(self, path: str) -> int | None:
        """The status of a GET, or None where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self._options.port, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    @property
    def _log(self) -> Path:
        return self._directory / "txnscope.log"

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
