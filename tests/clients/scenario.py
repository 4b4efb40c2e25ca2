"""Runs the same scenario with all clients at the same time: commits, aborts, `kill -9` and a restart under the same id,
and a transaction that stays open beyond its timeout. Also runs a rolling start of Kafka Streams, an application with a
new random id at each start, and an application whose ids look like those of frameworks."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from deploy.demo.broker import Broker
from service.domain.findings.churn import RANDOM_IDS
from service.domain.findings.kinds import Kind
from service.domain.transaction_log.states import NAMES, OPEN
from tests.clients import libraries
from tests.clients.client import ABORT, COMMIT, LATE, LEAVE_OPEN, READY, Client
from tests.clients.libraries import NotHere, Streams
from tests.harm.watched import Watch
from tests.helpers.brokers import describe_transaction
from tests.helpers.paths import ROOT
from tests.helpers.threads import repeated
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_for, wait_until, wait_until_equal
from tests.integration.producers import create_topic, open_producer, plain_producer, transact

KAFKAJS: Final = "kafkajs"
AIOKAFKA: Final = "aiokafka"
STREAMS: Final = "kafka-streams"

SHOP: Final = "shop"
SHIPPING: Final = "shipping"
INSTANCES: Final = (*[f"{SHOP}:classic"] * 5, f"{SHIPPING}:streams")
PAUSE_MS: Final = 5_000
"""Pause (ms) between the starts of two instances. The starts of the five SHOP instances are thus spread over 20 s, and
do not count as one start."""

CHURN: Final = "report-"

BILLING: Final = "billing"
LOOKALIKES: Final = [
    BILLING + end for end in ("", "-1", "-0-1", "-0-2", "-0-3", "-1_0", "-1_1", ".worker.0", ".worker.1")
]
"""Ids of an application with librdkafka. Some have the form of the ids of Flink, Kafka Streams, and Spring."""

TIMEOUT_MS: Final = 30_000
"""Transaction timeout (ms) of KafkaJS and aiokafka: longer than the time that these applications need to start
again."""

PROPERTIES: Final = {
    # a killed member is noticed after 10 s instead of 45 s
    "group.streams.min.session.timeout.ms": "10000",
    "group.streams.session.timeout.ms": "10000",
}

_ORDERS: Final = "orders"
_OUTPUT: Final = "output"
_TOPICS: Final = {_ORDERS: 6, _OUTPUT: 2, f"{_ORDERS}-{SHOP}": 2, f"{_ORDERS}-{SHIPPING}": 2}
_FEED_S: Final = 0.2
_TIMED_OUT = re.compile(
    r"\[(.+?)\] .*Completed rollback of ongoing transaction for transactionalId (\S+) due to timeout"
)

Order = Callable[[str, int], None]
"""A function that sends an order to a partition."""


@dataclass
class Scenario:
    """A run of the scenario.

    - `absent`: a mapping from each library that could not be used to the reason.
    - `restarted`: a mapping from the id of each application that was killed in the middle of a transaction and
      restarted, to the output of `txnscope transaction` for the id.
    - `killed_ms`: the time at which Kafka Streams was killed.
    """

    broker: Broker
    app: Watch
    directory: Path
    absent: dict[str, str] = field(default_factory=dict)
    restarted: dict[str, str] = field(default_factory=dict)
    killed_ms: int = 0

    def run(self) -> None:
        """Runs until all clients are done, and the store has all their transactions, and the findings about churn and
        timeouts."""
        for topic, partitions in _TOPICS.items():
            create_topic(self.broker.bootstrap, topic, partitions)
        rolled_out = threading.Event()
        work = {
            STREAMS: lambda: self._streams(rolled_out),
            KAFKAJS: lambda: self._command(KAFKAJS, libraries.kafkajs(self.directory / KAFKAJS)),
            AIOKAFKA: lambda: self._command(AIOKAFKA, libraries.aiokafka()),
        }
        with ThreadPoolExecutor() as pool:
            working = [pool.submit(self._attempt, name, do) for name, do in work.items()]
            working.append(pool.submit(self._churn, rolled_out))
            for future in working:
                future.result()
        wait_until_equal(self._open, [], f"the open transactions ({self.app.log})")
        self.app.wait_until_read()
        wait_for(lambda: self.app.findings(Kind.CHURN), f"churn; {self.app.log}")
        wait_until_equal(self._untold, [], f"the timed-out ids without a finding ({self.app.log})")

    def timeouts(self) -> list[tuple[str, int]]:
        """Returns (id, time) of each transaction that the coordinator aborted because of its timeout, from the broker's
        log file."""
        found = _TIMED_OUT.findall((self.broker.directory / "broker.log").read_text())
        return [(name, round(datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000)) for at, name in found]

    def _attempt(self, name: str, do: Callable[[], None]) -> None:
        try:
            do()
        except NotHere as why:
            self.absent[name] = str(why)

    def _command(self, name: str, command: list[str]) -> None:
        arguments = (self.broker.bootstrap, name, _OUTPUT, f"{name}-group", str(TIMEOUT_MS))
        with Client([*command, *arguments], self.directory / f"{name}.log") as application:
            application.wait_for(READY)
            application.do(COMMIT, COMMIT, ABORT, ABORT, LEAVE_OPEN)
            application.kill()
            application.start()
            application.wait_for(READY)
            application.do(COMMIT)
            self.restarted[name] = wait_until(
                lambda: self._ask(name),
                lambda said: "A single fence" in " ".join(said.split()),
                f"the abort of {name} to be reported as a single fence",
            )
            application.do(ABORT, LEAVE_OPEN)
            wait_until_equal(
                lambda: describe_transaction(self.broker.bootstrap, name).state, "CompleteAbort", f"the state of {name}"
            )
            application.do(LATE, COMMIT, COMMIT)
            application.stop()

    def _ask(self, name: str) -> str:
        where = ("--cluster", self.app.name, "--url", f"http://127.0.0.1:{self.app.port}")
        command = [sys.executable, "-m", "service.cli", "transaction", *where, name]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_S).stdout

    def _churn(self, rolled_out: threading.Event) -> None:
        """Starts an application several times, each time with a new random id. The last start comes after the rolling
        start of Kafka Streams. If txnscope wrongly reported the rolling start as well, this finding would therefore
        exist when the finding about churn appears."""
        workers = [open_producer(self.broker.bootstrap, name) for name in LOOKALIKES]
        for _ in range(RANDOM_IDS):
            self._start_with_a_new_id()
            for worker in workers:
                transact(worker, _OUTPUT)
            time.sleep(PAUSE_MS / 1_000)
        assert rolled_out.wait(LIMIT_S), "the rolling start has not ended"
        self._start_with_a_new_id()

    def _start_with_a_new_id(self) -> None:
        transact(open_producer(self.broker.bootstrap, f"{CHURN}{uuid.uuid4()}"), _OUTPUT)

    def _streams(self, rolled_out: threading.Event) -> None:
        try:
            streams = Streams(self.broker, self.directory / STREAMS, INSTANCES)
            streams.compile()
            with _feeding(self.broker.bootstrap) as order:
                self._work_and_die(
                    Client(streams.command(_ORDERS, PAUSE_MS), self.directory / "streams.log"), order, rolled_out
                )
                with Client(streams.command(_ORDERS, 0), self.directory / "streams.log") as again:
                    again.wait_for(READY)
                    self.app.wait_for_more_commits(self._threads("1"))
                    again.stop()
        finally:
            rolled_out.set()

    def _work_and_die(self, application: Client, order: Order, rolled_out: threading.Event) -> None:
        with application:
            application.wait_for(READY)
            wait_until(
                lambda: self._threads("1"),
                lambda ids: len(ids) == len(INSTANCES),
                f"all instances to commit; {self.app.log}",
            )
            rolled_out.set()
            order(f"broken {SHOP}", 0)
            order(f"broken {SHIPPING}", 1)
            order(f"slow {SHOP}", 2)
            wait_until(
                lambda: self._threads("2"), lambda ids: len(ids) >= 2, f"two replaced threads to commit; {self.app.log}"
            )
            wait_for(
                lambda: [1 for name, _ in self.timeouts() if name.startswith(SHOP)],
                "the transaction of the slow order to time out",
            )
            self.app.wait_for_more_commits(self._working_threads())
            self.killed_ms = round(time.time() * 1_000)
            application.kill()

    def _threads(self, number: str) -> list[str]:
        """Returns the transactional ids that belong to a Kafka Streams thread with this number, and have committed."""
        ours = (f"{SHOP}-", f"{SHIPPING}-")
        ids = self.app.ids().items()
        return [name for name, row in ids if name.startswith(ours) and name.endswith(f"-{number}") and row.commits]

    def _working_threads(self) -> list[str]:
        """Returns the transactional id of the newest thread of each Kafka Streams instance."""
        newest = {name.rpartition("-")[0]: name for number in "12" for name in self._threads(number)}
        return [*newest.values()]

    def _open(self) -> list[str]:
        open_states = {NAMES[state] for state in OPEN}
        return [name for name, row in self.app.ids().items() if row.state in open_states]

    def _untold(self) -> list[str]:
        if self.app.findings(Kind.CORRELATED_TIMEOUTS):
            return []
        reported = {
            row.transactional_id.decode() if row.transactional_id else row.prefix
            for row in self.app.findings(Kind.TIMED_OUT)
        }
        return sorted({name for name, _ in self.timeouts() if not name.startswith(tuple(reported))})


@contextmanager
def _feeding(bootstrap: str) -> Iterator[Order]:
    """Sends orders to every partition, continuously during the block. Yields a function that sends one more order."""
    producer = plain_producer(bootstrap)

    def order(text: str, partition: int) -> None:
        producer.produce(_ORDERS, text, key=f"customer-{partition}", partition=partition)
        producer.poll(0)

    def feed() -> None:
        for partition in range(_TOPICS[_ORDERS]):
            order("order", partition)

    with repeated(feed, _FEED_S):
        yield order
    producer.flush(ANSWER_S)
