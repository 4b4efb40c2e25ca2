"""Runs a real broker whose `__transaction_state` holds millions of records. The records are written as segment files,
because real transactions would take hours."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from deploy.demo.broker import Broker
from service.domain.transaction_log.states import TOPIC
from tests.benchmarks.decode import make_log
from tests.helpers.brokers import free_port, new_cluster_id
from tests.helpers.waiting import wait_for
from tests.integration.application import log_ends
from tests.integration.producers import open_producer

VERSION = "4.3.1"
PARTITIONS = 50
SEGMENT_BYTES = 100 << 20  # Kafka's transaction.state.log.segment.bytes
PROPERTIES = {
    "transaction.state.log.num.partitions": str(PARTITIONS),
    # the records are old, and neither expiry nor compaction may change the log during the measurement
    "transactional.id.expiration.ms": "2147483647",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "2147483647",
    "log.cleaner.enable": "false",
}


class Spent(NamedTuple):
    elapsed_s: float
    cpu_s: float


class BenchmarkBroker(Broker):
    """The demo's broker with the heap that a coordinator of a million ids needs."""

    def _java(self, *options: str) -> list[str]:
        return super()._java(*options, "-Xmx3g")  # Java uses the last option of a name

    def console_consumer(self, records: int) -> Spent:
        """Measures the time and the CPU of Kafka's console consumer from its start until it has formatted the first
        `records` records.

        Uses the Java options of Kafka's own start scripts, because the options in `tool` are meant for short runs.
        """
        java, *_ = super()._java()
        began, cpu_before = time.monotonic(), _children_cpu_s()
        subprocess.run(
            [
                *(java, "-Xmx512m", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
                *("-XX:InitiatingHeapOccupancyPercent=35", "-cp", self._classpath),
                "org.apache.kafka.tools.consumer.ConsoleConsumer",
                *("--bootstrap-server", self.bootstrap, "--topic", TOPIC, "--from-beginning"),
                *("--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"),
                *("--max-messages", str(records), "--timeout-ms", "30000"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=300,
        )
        return Spent(time.monotonic() - began, _children_cpu_s() - cpu_before)


def _children_cpu_s() -> float:
    """Returns the CPU seconds of the child processes that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


@contextmanager
def bench_broker(properties: Mapping[str, str] | None = None, heap_mb: int | None = None) -> Iterator[Broker]:
    """Runs a broker that is a Kafka cluster of its own. Its data are removed at the end."""
    more = {} if heap_mb is None else {"heap_mb": heap_mb}
    with (
        TemporaryDirectory(prefix="txnscope-bench-") as directory,
        Broker(VERSION, free_port(), Path(directory), properties or {}, cluster_id=new_cluster_id(), **more) as broker,
    ):
        yield broker


@contextmanager
def prepared_broker(records: int, ids: int) -> Iterator[BenchmarkBroker]:
    """Runs a broker whose log holds about `records` records of `ids` ids. `ids`: a multiple of PARTITIONS; otherwise
    the log holds fewer ids. The broker's data are removed at the end."""
    began = time.monotonic()
    with TemporaryDirectory(prefix="txnscope-bench-") as directory:
        broker = BenchmarkBroker(VERSION, free_port(), Path(directory) / "kafka", PROPERTIES)
        with broker:
            open_producer(broker.bootstrap, "creates-the-log")
        size = _write_log(broker.data, records, ids)
        (broker.data / ".kafka_cleanshutdown").unlink(missing_ok=True)
        with broker:
            found = _wait_until_loaded(broker)
            print(
                f"\na broker with {found:,} records of {ids:,} ids in {PARTITIONS} partitions, {size / 1e6:,.0f} MB:"
                f" prepared in {time.monotonic() - began:.0f} s",
                flush=True,
            )
            yield broker


def _write_log(data: Path, records: int, ids: int) -> int:
    """Writes the log of every partition, and returns the total size in bytes. When the broker starts, it recovers the
    logs and rebuilds their indexes."""
    shares = [(p, records // PARTITIONS, ids // PARTITIONS, str(data / f"{TOPIC}-{p}")) for p in range(PARTITIONS)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return sum(pool.map(_write_partition, *zip(*shares, strict=True)))


def _write_partition(partition: int, records: int, ids: int, directory: str) -> int:
    log = make_log(records, ids, first_id=partition * ids)
    if len(log) > SEGMENT_BYTES:
        raise ValueError(f"{records} records per partition do not fit into one segment; use a smaller --records")
    for file in Path(directory).iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    (Path(directory) / f"{0:020}.log").write_bytes(log)
    return len(log)


def _wait_until_loaded(broker: BenchmarkBroker) -> int:
    """Waits until the coordinator has loaded the transaction log, because loading would disturb the measurement.
    Returns the number of records in the log."""
    log = broker.directory / "broker.log"

    def loaded() -> bool:
        _, _, this_run = log.read_text(errors="replace").rpartition("is now STARTING")
        return this_run.count("Finished loading") >= PARTITIONS

    wait_for(loaded, f"the coordinator to load the transaction log; {log}")
    return sum(log_ends(broker.bootstrap).values())
