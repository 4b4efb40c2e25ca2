"""The Spark session, small and quiet: two cores, no web interface, half a gigabyte of heap.

Every setting was measured; the figures are in docs/benchmarks.md and docs/adr/0001. docs/adr/0009 explains the settings
that keep the session alive on a starved machine, and its Python processes quiet.
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
from spark_jobs.runtime.fork_server import KEEP_FREED_MEMORY, SOURCE_MODULES, socket_in
from spark_jobs.runtime.java import Java, archived_classes, find_java, sharing_options

log = logging.getLogger("txnscope.ingest")

CORES = 2
LOGGING: Final = Path(__file__).parent / "conf" / "log4j2.properties"
NO_CONF: Final = Path(__file__).parent / "conf" / "none"
"""A folder on the JVM's class path that does not exist: a folder with anything in it would keep classes from being
archived."""

TASK_TRIES: Final = 2
"""Attempts of a task. When a worker dies, another one tries its task again, and the query goes on. A task that Kafka
does not answer is tried again, too; that must not take long, because the failure is reported only when the query
ends."""

_PATIENCE_S: Final = 600
"""Time that Spark's own parts wait for one another. `spark_jobs.runtime.liveness` finds stuck parts, and distinguishes
a slow machine from a dead process. Spark's own time-outs, of 15 s and more, do not."""

_SOCKETS_FIT: Final = 60
"""Longest path of a folder for Unix sockets: Linux takes paths of 107 bytes, Spark's names have 43. If the path of the
folder is longer, Spark listens on loopback instead."""

JvmGuard = Callable[["subprocess.Popen[bytes]"], None]


class SparkFailed(Exception):
    """Spark could not be started. The message is one line."""


class SparkStart:
    """A start of Spark in the background: its JVM takes seconds, in which the application does other work."""

    def __init__(self, scratch: Path, guard: JvmGuard) -> None:
        self._session: Future[SparkSession] = Future()
        threading.Thread(target=self._start, args=(scratch, guard), name="Spark's start", daemon=True).start()

    def session(self) -> SparkSession:
        """Waits for the session and returns it. Raises JavaNotFound, SparkFailed."""
        return self._session.result()

    def _start(self, scratch: Path, guard: JvmGuard) -> None:
        try:
            self._session.set_result(start_spark(scratch, guard))
        except BaseException as e:
            self._session.set_exception(e)


def start_spark(scratch: Path, guard: JvmGuard, java_options: Sequence[str] | None = None) -> SparkSession:
    """Starts a local session on the Java that `find_java` returns. `scratch`: a folder for all that Spark writes.
    `guard`: is called with the session's JVM. `java_options`: replace those that use the archive of classes.

    Raises JavaNotFound, SparkFailed.
    """
    java = find_java(os.environ)
    options = _sharing(java) if java_options is None else java_options
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(_python(scratch))
    os.environ["SPARK_CONF_DIR"] = str(NO_CONF)
    for name, value in KEEP_FREED_MEMORY.items():
        os.environ.setdefault(name, value)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # no other machine needs to reach a local driver
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
        # in this folder, the files that a killed JVM leaves behind are removed with the rest of `scratch`
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
        # a rename on the local disk is atomic: Hadoop's slower contract is not needed
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.scheduler.mode": "FAIR",  # a first read of the log leaves time for samples of partitions
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
    }


def _python(scratch: Path) -> Path:
    """Writes the program that Spark starts for each of its Python processes (see `python_process`). Returns its
    path."""
    program = scratch / "python"
    run = shlex.join(
        [sys.executable, "-S", str(python_process.__file__), str(socket_in(scratch)), ",".join(SOURCE_MODULES)]
    )
    program.write_text(f'#!/bin/sh\nexec {run} "$@"\n')
    program.chmod(0o700)
    return program


def _is_lost(*_: Any) -> None:
    """Prints nothing when the JVM is gone. The watchdog reports that in one line; socketserver would print a
    traceback."""
