"""Measures the time from a late write until each kind of receiver has been notified of the hanging transaction: a
webhook, Alertmanager, and a topic on another broker."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, TopicPartition

from deploy.demo.broker import Broker
from deploy.demo.workload.raw_producer import Connection
from tests.benchmarks import detection
from tests.benchmarks.detection import HANGS, LONG, late_write
from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.prepared_broker import bench_broker
from tests.benchmarks.watched import watching
from tests.helpers.alertmanagers import alertmanager
from tests.helpers.brokers import free_port, new_cluster_id
from tests.helpers.servers import get_json
from tests.helpers.threads import repeated
from tests.helpers.waiting import LIMIT_S
from tests.integration.producers import begin, create_topic
from tests.lab.hangs import UNGUARDED
from tests.service.notifications.receiving import Endpoint, endpoint

NOTIFIED_S = 5.0
POLL_S = 0.05
TOPIC = "findings"
NOBODY = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"

Seen = dict[int, float]
"""A mapping from partition to the monotonic time at which the finding about this partition was first seen."""


def run(cases: int = 100) -> list[Figure]:
    with (
        bench_broker(UNGUARDED) as broker,
        TemporaryDirectory(prefix="txnscope-bench-") as text,
        Broker("4.3.1", free_port(), Path(text) / "other", cluster_id=new_cluster_id()) as other,
    ):
        folder = Path(text)
        create_topic(broker.bootstrap, HANGS, partitions=cases)
        create_topic(broker.bootstrap, LONG)
        long = begin(broker.bootstrap, "long-and-legal", LONG, 900_000)  # the first one makes the transaction log
        create_topic(other.bootstrap, TOPIC, partitions=1)
        (folder / "alertmanager.yml").write_text(NOBODY)
        with endpoint() as hook, alertmanager(folder / "alertmanager.yml", folder) as alerts:
            config = folder / "txnscope.toml"
            config.write_text(_config(hook.url, alerts, other.bootstrap))
            with watching(broker.bootstrap, more=["--config", str(config)]) as watched:
                watched.wait_until_read(1, LIMIT_S)
                with _seen(hook, alerts, other.bootstrap) as seen:
                    figures = list(_measure(broker, seen, cases))
        long.abort_transaction()
    show(f"notifications of {cases} late writes", figures)
    return figures


def _config(hook: str, alerts: str, other: str) -> str:
    tables = (("webhook", f"{hook}/hook"), ("alertmanager", alerts), ("kafka", f"kafka://{other}/{TOPIC}"))
    return "".join(f'[[notify]]\nname = "{kind}"\nkind = "{kind}"\nurl = "{url}"\n' for kind, url in tables)


def _measure(broker: Broker, seen: dict[str, Seen], cases: int) -> Iterator[Figure]:
    with Connection(broker.bootstrap, threading.Event()) as connection:
        injected = [late_write(connection, number) for number in detection.paced(cases)]
    detection.wait_for(lambda: all(len(one) >= cases for one in seen.values()))
    for name, times in seen.items():
        waits = [times[one.partition] - one.at_s for one in injected if one.partition in times]
        yield Figure(f"{name}: late writes with a notification", 100 * len(waits) / cases, "%", 100, at_least=True)
        yield Figure(f"{name}: late write acknowledged → notified, p50", statistics.median(waits), "s")
        yield Figure(f"{name}: late write acknowledged → notified, p99", percentile(waits, 0.99), "s", NOTIFIED_S)


@contextmanager
def _seen(hook: Endpoint, alerts: str, other: str) -> Iterator[dict[str, Seen]]:
    """Yields a mapping from receiver to the findings that the receiver has got so far."""
    seen: dict[str, Seen] = {"webhook": {}, "Alertmanager": {}, "topic": {}}
    settings = {"bootstrap.servers": other, "group.id": "bench", "fetch.wait.max.ms": 20}
    read = 0

    def look() -> None:
        nonlocal read
        now, new = time.monotonic(), hook.requests[read:]
        read += len(new)
        for request in new:
            _note(seen["webhook"], request.json["finding"]["subject"], now)
        for one in get_json(f"{alerts}/api/v2/alerts"):
            _note(seen["Alertmanager"], one["labels"], time.monotonic())
        for message in consumer.consume(500, 0.01):
            if message.error() is None:
                _note(seen["topic"], json.loads(message.value() or b"")["data"]["finding"]["subject"], time.monotonic())

    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        with repeated(look, POLL_S):
            yield seen


def _note(seen: Seen, subject: dict[str, object], now_s: float) -> None:
    if subject.get("topic") == HANGS:
        seen.setdefault(int(str(subject["partition"])), now_s)
