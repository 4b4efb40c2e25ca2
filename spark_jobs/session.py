"""The Spark session, small and quiet: two cores, no web interface, half a gigabyte of heap.

Every setting was measured; the figures are in docs/benchmarks.md and docs/adr/0001.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from spark_jobs.java import find_java

CORES = 2
CONF = Path(__file__).parent / "conf"
KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
"""For glibc in the Python workers: a Fetch of 8 MB given back to the kernel each time costs a third of decoding it."""


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A local session on the Java that is there; stopped, with its JVM, at the end. Raises JavaNotFound."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_CONF_DIR"] = str(CONF)
    for name, value in KEEP_FREED_MEMORY.items():
        os.environ.setdefault(name, value)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # nobody else has business with a local driver
    with TemporaryDirectory(prefix="txnscope-spark-") as scratch:
        session = (
            SparkSession.builder.master(os.environ.get("TXNSCOPE_SPARK_MASTER", f"local[{CORES}]"))
            .appName("txnscope")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "512m")
            .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
            .config("spark.local.dir", scratch)
            .config("spark.sql.warehouse.dir", scratch)
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.execution.arrow.pyspark.enabled", "true")
            .config("spark.python.unix.domain.socket.enabled", "true")
            # a rename on the local disk is atomic: no need of Hadoop's slower contract
            .config(
                "spark.sql.streaming.checkpointFileManagerClass",
                "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
            )
            .config("spark.scheduler.mode", "FAIR")  # a first read of the log leaves room for looks at partitions
            .config("spark.sql.streaming.minBatchesToRetain", "2")
            .config("spark.sql.streaming.numRecentProgressUpdates", "2")
            .getOrCreate()
        )
        try:
            yield session
        finally:
            session.stop()
