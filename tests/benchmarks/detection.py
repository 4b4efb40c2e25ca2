"""Measures the time until a hanging transaction is found, and until its end is known, in comparison with Kafka's own
tool. The load has three parts at the same time: late writes, short healthy transactions at a steady rate, and one
healthy transaction that is open for long. A healthy transaction is a false alarm if `kafka-transactions.sh
find-hanging` prints it, or if we confirm a finding about it."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from deploy.demo.broker import Broker
from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import Connection
from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.loading import loading
from tests.benchmarks.prepared_broker import bench_broker
from tests.benchmarks.watched import Polling, Watched, watching
from tests.helpers.brokers import kafka_transactions
from tests.helpers.waiting import LIMIT_S
from tests.integration.producers import begin, create_topic
from tests.lab.asking import Open, mark
from tests.lab.hangs import UNGUARDED, old_producer

TYPICAL_S, FOUND_S, RESOLVED_S, DECIDED = 1.0, 1.6, 2.0, 95.0
HANGS, HEALTHY, LONG = "hangs", "healthy", "long"
EVERY_S = 0.5
POLL_S = 0.1
LOST_AFTER_S = LIMIT_S
TOOL_RUNS = 5


class Injected(NamedTuple):
    """A late write: its entry, and the time at which Kafka acknowledged it, on the monotonic and on the wall clock."""

    partition: int
    open: Open
    at_s: float
    clock_s: float


def run(cases: int = 100, rate: float = 200, ids: int = 20) -> list[Figure]:
    log = UNGUARDED | {"transaction.state.log.num.partitions": "50", "offsets.topic.num.partitions": "50"}
    with bench_broker(log) as broker:
        for topic, partitions in ((HANGS, cases), (HEALTHY, 10), (LONG, 1)):
            create_topic(broker.bootstrap, topic, partitions=partitions)
        long = begin(broker.bootstrap, "long-and-legal", LONG, 900_000)
        with watching(broker.bootstrap) as watched, Connection(broker.bootstrap, threading.Event()) as connection:
            watched.wait_until_read(1, LIMIT_S)
            with loading("tests.benchmarks.load", broker.bootstrap, HEALTHY, rate, ids) as load:
                time.sleep(10)
                figures = list(_measure(broker, watched, connection, cases))
            done, seconds = load.said
            healthy = int(done) / float(seconds)
            show(f"detection: {cases} late writes beside {healthy:.0f} healthy transactions/s", figures)
        long.abort_transaction()
    return figures


def _measure(broker: Broker, watched: Watched, connection: Connection, cases: int) -> Iterator[Figure]:
    with _Watch(watched) as watch:
        injected = [late_write(connection, number) for number in paced(cases)]
        wait_for(lambda: len(watch.confirmed) >= cases)
        found = [watch.confirmed[i.partition] - i.at_s for i in injected if i.partition in watch.confirmed]
        yield Figure("late writes found", 100 * len(found) / cases, "%", 100, at_least=True)
        yield Figure("late write acknowledged → confirmed in REST, p50", statistics.median(found), "s", TYPICAL_S)
        yield Figure("late write acknowledged → confirmed in REST, p99", percentile(found, 0.99), "s", FOUND_S)
        yield Figure("  the longest", max(found), "s")
        yield from _decisions(watch, cases)
        yield from _stages(watch, injected)
        yield from _find_hanging(broker, {i.open.producer_id for i in injected})
        yield Figure("healthy transactions that we called hanging", len(watch.false), "", 0.5)
        marked = [_mark(connection, injected[number]) for number in paced(cases)]
        wait_for(lambda: len(watch.resolved) >= cases)
    ended = [watch.resolved[p] - at_s for p, at_s in marked if p in watch.resolved]
    yield Figure("hanging transactions that we saw end", 100 * len(ended) / cases, "%", 100, at_least=True)
    yield Figure("marker written → resolved in REST, p50", statistics.median(ended), "s")
    yield Figure("marker written → resolved in REST, p99", percentile(ended, 0.99), "s", RESOLVED_S)
    yield Figure("  the longest", max(ended), "s")


def _decisions(watch: _Watch, cases: int) -> Iterator[Figure]:
    """Yields the percentage of late writes whose finding had the decision NONE or ABORT when it was confirmed, and the
    number of findings with the decision COMMIT. COMMIT is wrong, because no late write was committed."""
    decisions = Counter(finding["decision"] for finding in watch.findings.values())
    right, wrong = decisions["none"] + decisions["abort"], decisions["commit"]
    yield Figure(
        "late writes confirmed with the decision none or abort", 100 * right / cases, "%", DECIDED, at_least=True
    )
    yield Figure("decisions that would commit a late write", wrong, "", 0.5)


def _stages(watch: _Watch, injected: list[Injected]) -> Iterator[Figure]:
    """Yields the median time from the late write to four events: the entry is first seen open, the end of the
    transaction log is requested, the finding is opened, and the finding is confirmed. The times are those in the
    findings."""
    stages: dict[str, list[float]] = {"seen open": [], "end of the log requested": [], "opened": [], "confirmed": []}
    for one in injected:
        if (finding := watch.findings.get(one.partition)) is None:
            continue
        looks = [e["at"] for e in finding["evidence"] if not e["source"].startswith("__transaction_state-")]
        for name, at in zip(stages, (*looks[:2], finding["opened_at"], finding["confirmed_at"]), strict=True):
            stages[name].append(datetime.fromisoformat(at).timestamp() - one.clock_s)
    for name, seconds in stages.items():
        yield Figure(f"  {name}, p50", statistics.median(seconds), "s")


def paced(cases: int) -> Iterator[int]:
    began = time.monotonic()
    for number in range(cases):
        time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
        yield number


def late_write(connection: Connection, partition: int) -> Injected:
    """Writes a record after the end of its transaction. The transaction is committed on odd partitions, and aborted on
    even ones."""
    producer: OldProducer = old_producer(connection, f"late-{partition}")
    producer.add(HANGS, partition)
    producer.produce(HANGS, partition, [b"in time"])
    producer.end(commit=bool(partition % 2))
    start = producer.produce(HANGS, partition, [b"late"])
    opened = Open(producer.producer_id, producer.producer_epoch, start)
    return Injected(partition, opened, time.monotonic(), time.time())


def _mark(connection: Connection, injected: Injected) -> tuple[int, float]:
    mark(connection, HANGS, injected.partition, injected.open, commit=False)
    return injected.partition, time.monotonic()


def _find_hanging(broker: Broker, hanging: set[int]) -> Iterator[Figure]:
    """Runs Kafka's tool several times with its default age of 15 minutes, and several times with age 0. Yields, for
    each age, the largest number of transactions found in a run, the false alarms of all runs, and the median time of a
    run."""
    for name, more in (("at its default", ()), ("at 0 minutes", ("--max-transaction-timeout", "0"))):
        seconds, false, right = [], 0, 0
        for _ in range(TOOL_RUNS):
            began = time.monotonic()
            rows = kafka_transactions(broker, "find-hanging", "--broker-id", "1", *more)
            seconds.append(time.monotonic() - began)
            reported = {int(row["ProducerId"]) for row in rows}
            right, false = max(right, len(reported & hanging)), false + len(reported - hanging)
        yield Figure(f"find-hanging {name}: found of {len(hanging)}", right, "")
        yield Figure(f"find-hanging {name}: false alarms in {TOOL_RUNS} runs", false, "")
        yield Figure(f"find-hanging {name}: a run", statistics.median(seconds), "s")


def wait_for(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LOST_AFTER_S
    while not is_so() and time.monotonic() < give_up:
        time.sleep(0.1)


class _Watch(Polling):
    """Polls REST, and notes the monotonic times at which each partition's finding was first seen as confirmed and as
    resolved."""

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched.rest(), POLL_S)
        self.confirmed: dict[int, float] = {}
        self.resolved: dict[int, float] = {}
        self.false: set[str] = set()
        self.findings: dict[int, Any] = {}

    def look(self) -> None:
        for path, seen in (("/hanging", self.confirmed), ("/findings", self.resolved)):
            query = {} if path == "/hanging" else {"kind": "hanging_transaction", "status": "resolved"}
            body: Any = self._rest.get(path, limit=200, **query)
            now = time.monotonic()
            for one in body["items"] if body else ():
                if one["subject"]["topic"] == HANGS:
                    seen.setdefault(one["subject"]["partition"], now)
                    self.findings.setdefault(one["subject"]["partition"], one)
                elif one["confirmed_at"] is not None:
                    self.false.add(one["id"])
