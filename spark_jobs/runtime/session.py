"""The Spark session. By default it runs on two cores of this machine, with half a gigabyte of heap and no web
interface; `Master` can name an existing cluster instead.

Every setting was measured; the figures are in docs/benchmarks.md and docs/adr/0001. docs/adr/0009 explains the settings
that keep the session alive on a starved machine, and those that keep its Python processes quiet.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import javaproperties
import pyarrow as pa
from pyspark import SparkContext, accumulators
from pyspark.sql import SparkSession

from spark_jobs.runtime import cluster, python_process
from spark_jobs.runtime.error_summary import error_summary
from spark_jobs.runtime.fork_server import KEEP_FREED_MEMORY, SOURCE_MODULES, socket_in
from spark_jobs.runtime.java import Java, archived_classes, compressed_classes, find_java, sharing_options


@dataclass(frozen=True, slots=True)
class Master:
    """The place where Spark runs. `url`: as for spark-submit; None stands for this machine, with two cores. `conf`:
    Spark settings, which override ours."""

    url: str | None = None
    conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def is_local(self) -> bool:
        return self.url is None or self.url.startswith("local")


HERE: Final = Master()


log = logging.getLogger("txnscope.ingest")

CORES = 2
LOGGING: Final = Path(__file__).parent / "conf" / "log4j2.properties"
NO_CONF: Final = Path(__file__).parent / "conf" / "none"
"""Path of a folder that does not exist, for the JVM's class path. The JVM archives no classes if a folder on the class
path has files."""

TASK_TRIES: Final = 2
"""Maximum attempts at a task, without a cluster. When a worker dies, another worker runs the task again, and the query
continues. A task that gets no answer from Kafka is repeated, too. This second attempt must be short, because the
failure is reported only when the query ends."""

_PATIENCE_S: Final = 600
"""Timeout (s) of waits between Spark's own processes, in place of Spark's defaults (15 s and more), which end a healthy
process on a slow machine. `spark_jobs.runtime.liveness` finds stuck parts."""

_SOCKETS_FIT: Final = 60
"""Maximum length (bytes) of the path of a folder for Unix sockets. Linux accepts paths of at most 107 bytes, and the
names of Spark's sockets need 43. If the folder's path is longer, Spark listens on loopback instead."""

_CHUNK: Final = 1 << 20
_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
_ON_A_CLUSTER: Final = {
    "spark.python.unix.domain.socket.enabled": "false",  # folders of executors may have any length
    **{f"spark.executorEnv.{name}": value for name, value in KEEP_FREED_MEMORY.items()},
}

JvmGuard = Callable[["subprocess.Popen[bytes]"], None]


class SparkFailed(Exception):
    """Spark could not be started. The message is one line."""


class SparkStart:
    """Starts Spark in the background. The JVM takes seconds to start; meanwhile the application does other work."""

    def __init__(self, scratch: Path, guard: JvmGuard, master: Master) -> None:
        self._session: Future[SparkSession] = Future()
        threading.Thread(target=self._start, args=(scratch, guard, master), name="Spark's start", daemon=True).start()

    def is_over(self, within_s: float) -> bool:
        """Waits at most `within_s` for the start. Returns True if Spark has started, or has failed to start."""
        return bool(wait([self._session], within_s).done)

    def session(self) -> SparkSession:
        """Waits for the session and returns it. Raises JavaNotFound, SparkFailed."""
        return self._session.result()

    def _start(self, scratch: Path, guard: JvmGuard, master: Master) -> None:
        try:
            self._session.set_result(start_spark(scratch, guard, master))
        except BaseException as e:
            self._session.set_exception(e)


def start_spark(
    scratch: Path, guard: JvmGuard, master: Master = HERE, java_options: Sequence[str] | None = None
) -> SparkSession:
    """Starts a session on the Java that `find_java` returns. `scratch`: a folder for everything that Spark writes on
    this machine. `guard`: is called with the session's JVM. `java_options`: options of Java in place of those that use
    the archive of classes.

    Raises JavaNotFound, SparkFailed.
    """
    java = find_java(os.environ)
    os.environ["JAVA_HOME"] = str(java.home)
    if master.is_local:
        _stay_here(scratch)
    else:
        os.environ["SPARK_LOCAL_DIRS"] = str(scratch)  # of this machine alone; executors have theirs
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in KEEP_FREED_MEMORY.items():
        os.environ.setdefault(name, value)
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = _is_lost  # type: ignore[method-assign,assignment]
    builder = SparkSession.builder.appName("txnscope").master(master.url or f"local[{CORES},{TASK_TRIES}]")
    for name, value in _settings(
        scratch, master, _sharing(java, scratch) if java_options is None else java_options
    ).items():
        builder = builder.config(name, value)
    try:
        with nullcontext() if master.is_local else _for_planners(scratch):
            session = builder.getOrCreate()
    except Exception as e:
        begun = SparkContext._active_spark_context
        if begun is not None and begun._jsc.sc().isStopped():
            raise SparkFailed(cluster.describe_end(begun.master)) from e
        raise SparkFailed(f"Spark did not start: {error_summary(e)}") from e
    guard(session.sparkContext._gateway.proc)  # type: ignore[union-attr]
    if not master.is_local:
        cluster.ship_code(session, scratch)
    return session


def _stay_here(scratch: Path) -> None:
    """Sets the environment variables for a session that runs on this machine alone."""
    interpreter = os.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(_python(scratch, interpreter))
    os.environ.setdefault("SPARK_CONF_DIR", str(NO_CONF))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _sharing(java: Java, scratch: Path) -> Sequence[str]:
    """Returns the options of Java that use the archive of classes: none if there is no archive. Unpacks a compressed
    archive into `scratch`."""
    classes, compressed = archived_classes(java), compressed_classes(java)
    if classes.exists():
        return sharing_options(classes)
    if not compressed.exists():
        return ()
    unpacked = scratch / classes.name
    try:
        with pa.input_stream(str(compressed), compression="zstd") as source, unpacked.open("wb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
    except OSError as e:
        unpacked.unlink(missing_ok=True)
        log.warning("the archive of Spark's classes cannot be unpacked, so Spark starts more slowly: %s", e)
        return ()
    return sharing_options(unpacked)


def _settings(scratch: Path, master: Master, java_options: Sequence[str]) -> dict[str, str]:
    """Returns the settings of the session. `spark-defaults.conf` overrides our settings, and `master.conf` overrides
    both. But options of the driver's JVM are appended to our options, and do not replace them."""
    here = {"spark.local.dir": str(scratch), "spark.network.timeout": f"{_PATIENCE_S}s"}
    ours = {**_everywhere(scratch, java_options), **(here if master.is_local else _ON_A_CLUSTER)}
    theirs = {**_spark_defaults(), **dict(master.conf)}
    if _JVM_OPTIONS in theirs:
        theirs[_JVM_OPTIONS] = f"{ours[_JVM_OPTIONS]} {theirs[_JVM_OPTIONS]}"
    return {**ours, **theirs}


def _spark_defaults() -> dict[str, str]:
    """Returns the settings of `spark-defaults.conf`, except `spark.master`; none if the file cannot be read. Here these
    settings override ours; Spark itself would let ours override them."""
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", NO_CONF)) / "conf"
    try:
        text = (Path(folder) / "spark-defaults.conf").read_text("utf-8")
    except OSError:
        return {}
    found: dict[str, str] = javaproperties.loads(text)
    return {name: value for name, value in found.items() if name != "spark.master"}


def _everywhere(scratch: Path, java_options: Sequence[str]) -> dict[str, str]:
    java_options = [
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        # in this folder, the files that a killed JVM leaves behind are removed with the rest of `scratch`
        f'-Djava.io.tmpdir="{scratch}"',
        f'-Dlog4j2.configurationFile="{LOGGING}"',
        *(f'"{option}"' for option in java_options),
    ]
    fits = len(os.fsencode(scratch)) <= _SOCKETS_FIT
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        _JVM_OPTIONS: " ".join(java_options),
        "spark.sql.warehouse.dir": scratch.as_uri(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.unix.domain.socket.enabled": str(fits).lower(),
        "spark.python.authenticate.socketTimeout": f"{_PATIENCE_S}s",
        # a rename on the local disk is atomic: Hadoop's slower contract is not needed
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.scheduler.mode": "FAIR",  # a first read of the log leaves time for samples of partitions
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
    }


def _python(scratch: Path, interpreter: str) -> Path:
    """Writes the program that Spark starts for each of its Python processes (see `python_process`). Returns its
    path."""
    program = scratch / "python"
    run = shlex.join(
        [interpreter, "-S", str(python_process.__file__), str(socket_in(scratch)), ",".join(SOURCE_MODULES)]
    )
    program.write_text(f'#!/bin/sh\nexec {run} "$@"\n')
    program.chmod(0o700)
    return program


def planners_path(scratch: Path, interpreter: str) -> Path:
    """Makes a folder for the `PYTHONPATH` of a driver's JVM, and returns its path. Python processes that the JVM starts
    as planners then run the program of `_python`.

    On a Spark cluster, `PYSPARK_PYTHON` cannot name that program, because its path would have to exist on every
    machine. Daemons do not run the program, because the JVM sets no time limit for their start.
    """
    program = str(_python(scratch, interpreter))
    folder = scratch / "planners"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import os, sys\n"
        "module = sys.orig_argv[1:3]\n"  # the program itself starts the interpreter without `-m`
        "if module[:1] == ['-m'] and module[1:] != ['pyspark.daemon']:\n"
        f"    os.execv({program!r}, [{program!r}, *sys.orig_argv[1:]])\n"
    )
    return folder


@contextmanager
def _for_planners(scratch: Path) -> Iterator[None]:
    """Puts the folder of `planners_path` on the `PYTHONPATH` of a JVM that starts within the block."""
    before = os.environ.get("PYTHONPATH")
    found = str(planners_path(scratch, os.environ["PYSPARK_PYTHON"]))
    os.environ["PYTHONPATH"] = found if before is None else os.pathsep.join([found, before])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _is_lost(*_: Any) -> None:
    """Prints nothing when the JVM is gone. The watchdog reports the JVM's end in one line; socketserver would print a
    traceback."""
