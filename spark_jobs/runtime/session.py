"""The Spark session, small and quiet: two cores, no web interface, half a gigabyte of heap.

Every setting was measured; the figures are in docs/benchmarks.md and docs/adr/0001. What keeps it alive on a starved
machine, and its Python processes quiet, is in docs/adr/0009.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from pyspark import accumulators
from pyspark.sql import SparkSession

from spark_jobs.runtime import python_process
from spark_jobs.runtime.error_summary import error_summary
from spark_jobs.runtime.fork_server import FOR_SOURCES, KEEP_FREED_MEMORY, socket_in
from spark_jobs.runtime.java import Java, archived_classes, find_java, sharing_options

log = logging.getLogger("txnscope.ingest")

CORES = 2
LOGGING: Final = Path(__file__).parent / "conf" / "log4j2.properties"
NO_CONF: Final = Path(__file__).parent / "conf" / "none"
"""Stands on the JVM's class path, and is not there: a folder with anything in it would keep classes from being
archived."""

TASK_TRIES: Final = 2
"""A task whose worker died is tried again by another worker: its query goes on. One that Kafka does not answer is tried
again, too, which must not take long: only when the query ends is anybody told."""

_PATIENCE_S: Final = 600
"""How long Spark's own parts wait for one another. `spark_jobs.runtime.liveness` finds the part that is stuck: it tells
a slow machine from a dead process, which Spark's time-outs, of 15 s and more, do not."""

_SOCKETS_FIT: Final = 60
"""Longest folder for Unix sockets: Linux takes paths of 107 bytes, Spark's names have 43. Otherwise it listens on
loopback."""

JvmGuard = Callable[["subprocess.Popen[bytes]"], None]


class SparkFailed(Exception):
    """Spark could not be started; one line."""


class SparkStart:
    """Spark, on its way since this was made: its JVM takes seconds, in which much else can be done."""

    def __init__(self, scratch: Path, guard: JvmGuard) -> None:
        self._session: Future[SparkSession] = Future()
        threading.Thread(target=self._start, args=(scratch, guard), name="Spark's start", daemon=True).start()

    def session(self) -> SparkSession:
        """Waits for it. Raises JavaNotFound, SparkFailed."""
        return self._session.result()

    def _start(self, scratch: Path, guard: JvmGuard) -> None:
        try:
            self._session.set_result(start_spark(scratch, guard))
        except BaseException as e:
            self._session.set_exception(e)


def start_spark(scratch: Path, guard: JvmGuard, java_options: Sequence[str] | None = None) -> SparkSession:
    """A local session on the Java that is there. `scratch`: a folder for all that Spark writes. `guard` gets its JVM.
    `java_options`: in place of those that use the archive of classes.

    Raises JavaNotFound, SparkFailed.
    """
    java = find_java(os.environ)
    options = _sharing(java) if java_options is None else java_options
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(_python(scratch))
    os.environ["SPARK_CONF_DIR"] = str(NO_CONF)
    for name, value in KEEP_FREED_MEMORY.items():
        os.environ.setdefault(name, value)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # nobody else has business with a local driver
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = _is_lost  # type: ignore[method-assign,assignment]
    builder = SparkSession.builder.appName("txnscope").master(
        os.environ.get("TXNSCOPE_SPARK_MASTER", f"local[{CORES},{TASK_TRIES}]")
    )
    for name, value in _settings(scratch, options).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as e:
        raise SparkFailed(f"Spark did not start: {error_summary(e)}") from e
    guard(session.sparkContext._gateway.proc)  # type: ignore[union-attr]
    return session


def _sharing(java: Java) -> Sequence[str]:
    classes = archived_classes(java)
    return sharing_options(classes) if classes.exists() else ()


def _settings(scratch: Path, java_options: Sequence[str]) -> dict[str, str]:
    java_options = [
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        # the folder: what a killed JVM leaves behind goes with the rest of `scratch`
        f'-Djava.io.tmpdir="{scratch}"',
        f'-Dlog4j2.configurationFile="{LOGGING}"',
        *(f'"{option}"' for option in java_options),
    ]
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.unix.domain.socket.enabled": str(len(str(scratch)) <= _SOCKETS_FIT).lower(),
        "spark.python.authenticate.socketTimeout": f"{_PATIENCE_S}s",
        "spark.network.timeout": f"{_PATIENCE_S}s",
        # a rename on the local disk is atomic: no need of Hadoop's slower contract
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.scheduler.mode": "FAIR",  # a first read of the log leaves room for looks at partitions
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
    }


def _python(scratch: Path) -> Path:
    """The program that Spark starts for every Python process of its own (see `python_process`)."""
    program = scratch / "python"
    run = shlex.join(
        [sys.executable, "-S", str(python_process.__file__), str(socket_in(scratch)), ",".join(FOR_SOURCES)]
    )
    program.write_text(f'#!/bin/sh\nexec {run} "$@"\n')
    program.chmod(0o700)
    return program


def _is_lost(*_: Any) -> None:
    """The JVM is gone, which the watchdog says in one line; socketserver would print a traceback for it."""
