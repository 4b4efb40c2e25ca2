"""Runs a standalone Spark cluster on loopback: a master, workers and their executors, each in a process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pyspark

from deploy.compose.left_out import trim_jars
from deploy.demo.child_process import ChildProcess
from spark_jobs.runtime.java import find_java
from tests.helpers.brokers import free_ports
from tests.helpers.processes import all_processes, command_of, send
from tests.helpers.waiting import wait_for

_DEPLOY = "org.apache.spark.deploy"
SPARK: Final = Path(pyspark.__file__).parent
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class SparkCluster:
    """A master and its workers, which run the Spark in `home`. `url` is the value for `--spark-master`. All files are
    below `folder`."""

    def __init__(self, folder: Path, home: Path = SPARK) -> None:
        self._folder, self._home, (self._port, web) = folder, home, free_ports(2)
        self.url = f"spark://127.0.0.1:{self._port}"
        self.workers: list[ChildProcess] = []
        arguments = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(web)]
        self._master = self._start("master", f"{_DEPLOY}.master.Master", *arguments)

    def add_worker(self) -> ChildProcess:
        """Starts a worker with one core, and waits until the worker has registered."""
        (web,) = free_ports(1)
        name = f"worker-{len(self.workers)}"
        arguments = ["--host", "127.0.0.1", "--webui-port", str(web), "--cores", "1", "--memory", "1g"]
        arguments += ["--work-dir", str(self._folder / name), self.url]
        worker = self._start(name, f"{_DEPLOY}.worker.Worker", *arguments)
        self.workers.append(worker)
        wait_for(lambda: "Successfully registered" in self.log(name), f"{name} to register: {self.log(name)}")
        return worker

    def executors(self) -> list[psutil.Process]:
        """Returns the executors of all applications, oldest first."""
        found = [process for process in all_processes() if _EXECUTOR in command_of(process) and self.url_in(process)]
        return sorted(found, key=lambda process: process.create_time())

    def url_in(self, process: psutil.Process) -> bool:
        """Returns whether the executor belongs to a worker of this cluster."""
        return str(self._folder) in " ".join([process.cwd(), command_of(process)])

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def stop(self) -> None:
        for process in (*self.workers, self._master):
            process.kill()
        send(signal.SIGKILL, self.executors())

    def _start(self, name: str, main: str, *arguments: str) -> ChildProcess:
        java = find_java(os.environ)
        own = {"SPARK_HOME": str(self._home), "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1"}
        own |= {"SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{name}.log").open("wb") as log:
            return ChildProcess([str(self._home / "bin" / "spark-class"), main, *arguments], log, {**os.environ, **own})


def spark_of_the_image(home: Path) -> Path:
    """Makes `home` a SPARK_HOME with the jars that the job's image has, and returns it."""
    (home / "jars").mkdir(parents=True)
    for jar in (SPARK / "jars").glob("*.jar"):
        (home / "jars" / jar.name).symlink_to(jar)
    trim_jars(home / "jars")
    (home / "bin").symlink_to(SPARK / "bin")
    return home


@contextmanager
def spark_cluster(folder: Path, workers: int, home: Path = SPARK) -> Iterator[SparkCluster]:
    cluster = SparkCluster(folder, home)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()
