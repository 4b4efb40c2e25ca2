"""Measures the CPU cost of 10,000 idle partitions. Then stalls 500 partitions at once, and measures the time until each
is shown with the transaction that blocks it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import Producer

from tests.benchmarks import held
from tests.benchmarks.figures import Figure, show
from tests.benchmarks.look import HEAP_MB, OF_A_TOPIC, WATCHED, create
from tests.benchmarks.prepared_broker import bench_broker
from tests.benchmarks.process_tree import cores_at_rest, shown
from tests.benchmarks.watched import Rest, Watched, watching
from tests.helpers.waiting import wait_for
from tests.integration.producers import create_topic, open_producer

IDLE_CORES = 0.15
NAMED_S = 3.0
MANY, FEW = max(WATCHED), 10
STOPPED, STOPPED_PARTITIONS, OF_A_TRANSACTION = "stopped", 500, 50
IDLE_S = 60
"""Seconds of an idle measurement: twice the period after which all partitions are reported again."""
SETTLE_S = 30
ROUNDS = 5
POLL_S = 0.05
TIMEOUT_S = 120
PAGE = 200


def run(held_s: float = 300) -> list[Figure]:
    with bench_broker(heap_mb=HEAP_MB) as broker:
        create_topic(broker.bootstrap, "few", partitions=FEW)
        open_producer(broker.bootstrap, "creates-the-log")
        with watching(broker.bootstrap) as watched:
            watched.wait_until_read(1, TIMEOUT_S)
            figures = _idle(broker.bootstrap, watched)
            show(f"idle: the whole application beside {MANY:,} partitions that nobody writes to", figures)
            figures += stopping(broker.bootstrap, watched)
    return figures + held.run(held_s)


def _idle(bootstrap: str, watched: Watched) -> list[Figure]:
    few = cores_at_rest(watched.tree, SETTLE_S, IDLE_S)
    create(bootstrap, MANY // OF_A_TOPIC)
    wait_until_watched(watched, MANY)
    many = cores_at_rest(watched.tree, SETTLE_S, IDLE_S)
    print(f"\n{FEW} partitions: {shown(few, 'cores')}\n{MANY:,} partitions: {shown(many, 'cores')}", flush=True)
    return [
        Figure(f"CPU of all, idle, {FEW} partitions", sum(few.values()), "cores"),
        Figure(f"CPU of all, idle, {MANY:,} partitions", sum(many.values()), "cores"),
        Figure(
            "  the difference: the cost of watching the partitions",
            sum(many.values()) - sum(few.values()),
            "cores",
            IDLE_CORES,
        ),
    ]


def stopping(bootstrap: str, watched: Watched) -> list[Figure]:
    """Opens transactions of 50 partitions each, holds them open together, and commits them; all this ROUNDS times."""
    create_topic(bootstrap, STOPPED, partitions=STOPPED_PARTITIONS)
    producers = [open_producer(bootstrap, f"stops-{n}") for n in range(STOPPED_PARTITIONS // OF_A_TRANSACTION)]
    with closing(watched.rest()) as rest:
        rounds = [_stop_once(producers, rest) for _ in range(ROUNDS)]
    writing_s, named_s, walk_s = (list(column) for column in zip(*rounds, strict=True))
    figures = [
        Figure("last write acknowledged → REST names all blockers, median", statistics.median(named_s), "s"),
        Figure("  the longest", max(named_s), "s", NAMED_S),
        Figure("  of this time, the last walk through the pages, median", statistics.median(walk_s), "s"),
        Figure("first write → last one acknowledged, median", statistics.median(writing_s), "s"),
    ]
    show(f"{STOPPED_PARTITIONS} partitions stop at once, {ROUNDS} times; {MANY:,} others are watched too", figures)
    return figures


def _stop_once(producers: Sequence[Producer], rest: Rest) -> tuple[float, float, float]:
    """Returns three durations (s): of the writes until the last acknowledgement; from the last acknowledgement until
    all blocking transactions are shown; and of the last walk through the pages."""
    began = time.monotonic()
    for number, producer in enumerate(producers):
        producer.begin_transaction()
        for partition in range(number * OF_A_TRANSACTION, (number + 1) * OF_A_TRANSACTION):
            producer.produce(STOPPED, b"payload", partition=partition)
    for producer in producers:
        assert not producer.flush(30)
    written = time.monotonic()
    named, walk_s = _wait_for_names(rest, {p: f"stops-{p // OF_A_TRANSACTION}" for p in range(STOPPED_PARTITIONS)})
    for producer in producers:
        producer.commit_transaction(30)
    _wait_for_names(rest, {})
    return written - began, named - written, walk_s


def _wait_for_names(rest: Rest, expected: dict[int, str]) -> tuple[float, float]:
    """Walks through the pages again and again, until exactly the blocking transactions in `expected` (transactional.id
    by partition) are found. Returns the end (monotonic) and the duration of the last walk."""
    give_up = time.monotonic() + TIMEOUT_S
    while True:
        began = time.monotonic()
        found = {one["partition"]: one["blocker"]["transactional_id"] for one in _lagging(rest) if one["blocker"]}
        now = time.monotonic()
        if found == expected:
            return now, now - began
        right = len(found.items() & expected.items())
        assert now < give_up, f"{right} of {len(expected)} partitions are shown with the right transaction"
        time.sleep(POLL_S)


def _lagging(rest: Rest) -> Iterator[Any]:
    """Yields the lagging partitions of the topic STOPPED, one page after the other."""
    cursor: dict[str, str] = {}
    while True:
        page = rest.get("/partitions", lagging="true", topic=STOPPED, limit=PAGE, **cursor)
        if page is None:
            return
        yield from page["items"]
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def wait_until_watched(watched: Watched, partitions: int) -> None:
    """Waits until at least `partitions` partitions are watched, and none of them is unknown."""
    with closing(watched.rest()) as rest:

        def are_watched() -> bool:
            reported = (rest.get("") or {}).get("partitions", {})
            return reported.get("watched", 0) >= partitions and not reported["unknown"]

        wait_for(are_watched, f"{partitions} partitions to be watched", TIMEOUT_S)
