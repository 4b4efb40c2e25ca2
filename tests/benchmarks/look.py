"""Measures one sample of many partitions: a request to a real broker for the LSO and the high watermark of every
partition."""

from __future__ import annotations

import statistics
import time

from confluent_kafka.admin import NewTopic

from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout, all_topics
from service.kafka.ends import EndsWatcher
from tests.benchmarks.figures import Figure, show
from tests.benchmarks.prepared_broker import bench_broker
from tests.helpers.brokers import connect
from tests.helpers.waiting import wait_until
from tests.integration.producers import admin_of

MEDIAN_MS = 60.0
OF_A_TOPIC = 1_000
WATCHED = (100, 2_000, 10_000)
LOOKS, WARMING = 51, 10
HEAP_MB = 1_536
TIMEOUT_S = 120


def run() -> list[Figure]:
    """Runs the benchmark on one broker that leads all partitions. Nothing is written during the benchmark."""
    with bench_broker(heap_mb=HEAP_MB) as broker:
        create(broker.bootstrap, max(WATCHED) // OF_A_TOPIC)
        with connect(broker.bootstrap) as client:
            layouts = _layouts(client)
            figures = [figure for count in WATCHED for figure in _measure(client, _first(layouts, count), count)]
    show(f"look: topics of {OF_A_TOPIC} partitions, {LOOKS} samples each", figures)
    return figures


def _measure(client: KafkaClient, layouts: dict[str, TopicLayout], count: int) -> list[Figure]:
    watcher = EndsWatcher(client)
    began = time.perf_counter()
    found = watcher.sample(layouts, with_start=False)
    first_ms = (time.perf_counter() - began) * 1000
    assert len(found) == count
    assert {ends.error for ends in found.values()} == {0}
    for _ in range(WARMING):
        watcher.sample(layouts, with_start=False)
    took_ms, cpu_began = [], time.process_time()
    for _ in range(LOOKS):
        began = time.perf_counter()
        watcher.sample(layouts, with_start=False)
        took_ms.append((time.perf_counter() - began) * 1000)
    cpu_ms = (time.process_time() - cpu_began) * 1000 / LOOKS
    bar = MEDIAN_MS if count == max(WATCHED) else None
    return [
        Figure(f"one sample of {count:,} partitions, median", statistics.median(took_ms), "ms", bar),
        Figure("  the longest", max(took_ms), "ms"),
        Figure("  CPU of the client, mean", cpu_ms, "ms"),
        Figure("  the first sample, which encodes the requests", first_ms, "ms"),
    ]


def create(bootstrap: str, topics: int, there: int = 0) -> None:
    """Creates `topics` topics of OF_A_TOPIC partitions each. `there`: the number of topics that earlier calls
    created."""
    admin = admin_of(bootstrap)
    for number in range(there, there + topics):
        wanted = NewTopic(f"look-{number}", OF_A_TOPIC, 1)
        admin.create_topics([wanted], request_timeout=TIMEOUT_S)[wanted.topic].result(TIMEOUT_S)


def _layouts(client: KafkaClient) -> dict[str, TopicLayout]:
    """Waits until every partition answers, and returns the layouts of the topics."""
    watcher = EndsWatcher(client)

    def those_that_answer() -> dict[str, TopicLayout]:
        layouts = {topic: layout for topic, layout in all_topics(client).layouts.items() if topic.startswith("look-")}
        found = watcher.sample(layouts, with_start=False)
        return {} if any(ends.error for ends in found.values()) else layouts

    wanted = max(WATCHED) // OF_A_TOPIC
    return wait_until(those_that_answer, lambda found: len(found) == wanted, "all partitions to answer", TIMEOUT_S)


def _first(layouts: dict[str, TopicLayout], count: int) -> dict[str, TopicLayout]:
    watched = {}
    for topic, layout in sorted(layouts.items())[: -(-count // OF_A_TOPIC)]:
        leaders = {p: leader for p, leader in layout.leaders.items() if p < count}
        watched[topic] = TopicLayout(topic, layout.topic_id, leaders)
    return watched
