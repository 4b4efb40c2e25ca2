"""Counts how often the record batches of 1,000 partitions are read over the network, while long but healthy
transactions hold the LSOs of these partitions for minutes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import Producer
from kafka.protocol.consumer import FetchResponse

from service.wire.header_columns import read_headers
from tests.benchmarks.figures import Figure, show
from tests.benchmarks.prepared_broker import bench_broker
from tests.benchmarks.process_tree import CpuMeter, shown
from tests.benchmarks.watched import Watched, watching
from tests.helpers.proxies import Proxies
from tests.helpers.waiting import wait_for
from tests.integration.producers import create_topic, open_producer

HELD, PARTITIONS, OF_A_TRANSACTION = "held", 1_000, 100
GROWING = 100
"""Number of partitions that get one more batch every GROWS_EVERY_S."""
GROWS_EVERY_S = 10.0
LEGAL_MS = 900_000
TIMEOUT_S = 120


class BatchCounter:
    """Counts the batches of the topic HELD in the Fetch responses that pass the proxies. The proxies call it from
    several threads."""

    def __init__(self) -> None:
        self.reads: Counter[tuple[int, int, int]] = Counter()  # (partition, LSO, base offset of a batch)
        self.fetches = self.empty = 0
        self._lock = threading.Lock()

    def __call__(self, api_key: int, version: int, answer: bytes) -> bytes:
        if api_key != FetchResponse.API_KEY:
            return answer
        found = FetchResponse.decode(answer, version=version, header=True)
        reported = [p for topic in found.responses if topic.topic == HELD for p in topic.partitions]
        with self._lock:
            self.fetches += bool(reported)
            for one in reported:
                batches = [header.base_offset for header in read_headers(bytes(one.records or b""))]
                self.reads.update((one.partition_index, one.last_stable_offset, offset) for offset in batches)
                self.empty += not batches
        return answer


def run(seconds: float) -> list[Figure]:
    counter = BatchCounter()
    with bench_broker() as broker, Proxies({1: broker.bootstrap}, rewrite=counter) as proxies:
        create_topic(broker.bootstrap, HELD, partitions=PARTITIONS)
        producers = [
            open_producer(broker.bootstrap, f"long-{n}", LEGAL_MS) for n in range(PARTITIONS // OF_A_TRANSACTION)
        ]
        with watching(proxies.bootstrap) as watched:
            watched.wait_until_read(len(producers), TIMEOUT_S)
            return _measure(producers, watched, counter, seconds)


def _measure(producers: Sequence[Producer], watched: Watched, counter: BatchCounter, seconds: float) -> list[Figure]:
    for number, producer in enumerate(producers):
        producer.begin_transaction()
        for partition in range(number * OF_A_TRANSACTION, (number + 1) * OF_A_TRANSACTION):
            producer.produce(HELD, b"payload", partition=partition)
    for producer in producers:
        assert not producer.flush(30)
    wait_for(lambda: len(counter.reads) >= PARTITIONS, "every partition to be read")
    meter, ends = CpuMeter(watched.tree), time.monotonic() + seconds
    while time.monotonic() < ends:
        for partition in range(GROWING):
            producers[0].produce(HELD, b"more", partition=partition)
        assert not producers[0].flush(30)
        time.sleep(min(GROWS_EVERY_S, max(0.0, ends - time.monotonic())))
    cores = meter.cores()
    assert _blocked(watched) == PARTITIONS
    reads = dict(counter.reads)
    still = Counter((p, lso) for (p, lso, _), times in reads.items() for _ in range(times) if p >= GROWING)
    figures = [
        Figure("reads of batches per partition and LSO, at most", max(still.values()), "", 1),
        Figure(f"  {GROWING} partitions grow: reads of the same batch, at most", max(reads.values()), "", 1),
        Figure("Fetch responses with any of the partitions", counter.fetches, ""),
        Figure("  answers about one partition that have no batch", counter.empty, ""),
        Figure("CPU of the whole application meanwhile", sum(cores.values()), "cores"),
    ]
    show(f"{PARTITIONS:,} partitions held open by healthy transactions for {seconds:.0f} s", figures)
    print(shown(cores, "cores"), flush=True)
    return figures


def _blocked(watched: Watched) -> int:
    with closing(watched.rest()) as rest:
        return int(rest.get("")["partitions"]["blocked"])
