"""Runs a Kafka broker: one KRaft node (broker and controller in one process) on loopback, from pinned jars."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from deploy.demo.child_process import ChildProcess
from deploy.demo.jars import fetch
from service.kafka.client import KafkaClient
from service.kafka.cluster import cluster_id
from service.kafka.errors import KafkaFailure
from service.kafka.settings import ClientSettings
from spark_jobs.runtime import java
from spark_jobs.runtime.java import find_java

CLUSTER_ID = "txnscope-demo-cluster0"
START_TIMEOUT_S = 300.0

# to stderr: the tools print their answers on stdout
LOGGING = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class BrokerError(Exception):
    """The broker did not start, or does not run. The message is for people, with a remedy if there is one."""


class Broker:
    """A broker: `with Broker("4.3.1", 19092, directory) as broker: broker.bootstrap`. The broker's data are in
    `directory`, and stay there after the block.

    `cluster_id`: 22 characters of base64url, as Kafka's own ids; the same for all brokers of a cluster. `heap_mb`:
    upper bound of the Java heap. The first broker of a version, when it is stopped, writes an archive of its classes
    beside the jars. With the archive, later brokers and Kafka's tools need half of the processor time to start.
    """

    def __init__(
        self,
        version: str,
        port: int,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 768,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        self.version, self.port, self.directory = version, port, directory
        self._properties = dict(properties or {})
        self._heap_mb, self._cluster_id = heap_mb, cluster_id
        self._process: ChildProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self) -> Broker:
        """Formats the storage if there is none, starts the broker, and waits until it answers. Raises BrokerError,
        JarsError, JavaNotFound."""
        for port in (self.port, self.port + 1):
            if not is_free(port):
                raise BrokerError(f"port {port} is taken: the broker needs {self.port} and {self.port + 1}")
        self._jars, self._jdk = fetch(self.version), find_java(os.environ)
        if not self.data.exists():
            self._format()
        heap = (f"-Xmx{self._heap_mb}m", "-Xms128m", "-XX:+UseSerialGC")
        archiving = () if self._archive.exists() else java.archiving_options(self._new_archive)
        with (self.directory / "broker.log").open("ab") as out:
            self._process = ChildProcess(
                [*self._java(*heap, *archiving), "kafka.Kafka", str(self._server_properties)], out
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Ends the broker by SIGTERM: a controlled shutdown. After 20 s, ends it by SIGKILL."""
        if self._process is not None:
            self._process.stop()
            self._process = None
            self._keep_archive()

    def kill(self) -> None:
        """Ends the broker by SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def discard(self) -> None:
        """Ends a broker whose data are not needed. If the version has no archive of classes yet, ends the broker by a
        controlled shutdown, which writes the archive; otherwise by SIGKILL."""
        if self._process is not None and not self._archive.exists():
            self.stop()
        else:
            self.kill()

    def pause(self) -> None:
        """Freezes the broker, which then keeps its connections and answers nothing."""
        self._running.pause()

    def resume(self) -> None:
        self._running.signal(signal.SIGCONT)

    def poll(self) -> int | None:
        """Returns the exit code if the broker has died; None while it runs. Raises BrokerError if `start` was not
        called, or the broker was stopped on purpose."""
        return self._running.poll()

    def log_tail(self, lines: int = 20) -> str:
        """Returns the last `lines` lines of the log; empty if there is no log yet."""
        return "\n".join(self._log_lines()[-lines:])

    def tool(self, main_class: str, *arguments: str, timeout_s: float = 60) -> str:
        """Runs one of Kafka's own command-line tools, and returns its output. Raises CalledProcessError, and
        TimeoutExpired after `timeout_s`."""
        command = self.tool_command(main_class, *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout_s).stdout

    def tool_command(self, main_class: str, *arguments: str) -> list[str]:
        """Returns the command that runs one of Kafka's own tools."""
        return [*self._java("-Xmx256m"), main_class, *arguments]

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _first_error(self) -> str:
        """Returns the first error in the log, with the lines that follow it; the end of the log if there is no error.
        The log of a broker that gave up ends with its orderly shutdown, which names no cause."""
        lines = self._log_lines()
        at = next((n for n, line in enumerate(lines) if "] ERROR " in line or "] FATAL " in line), None)
        return "its log ends:\n" + self.log_tail() if at is None else "\n".join(lines[at : at + 5])

    def _log_lines(self) -> list[str]:
        """Returns the lines of the log without stack frames, which would displace more informative lines."""
        log = self.directory / "broker.log"
        return _without_frames(log.read_text(errors="replace")) if log.exists() else []

    @property
    def _running(self) -> ChildProcess:
        if self._process is None:
            raise BrokerError("the broker is not running")
        return self._process

    @property
    def _server_properties(self) -> Path:
        return self.directory / "server.properties"

    def _java(self, *options: str) -> list[str]:
        logging = f"-Dlog4j.configuration=file:{self.directory}/log4j.properties"
        sharing = java.sharing_options(self._archive) if self._archive.exists() else ()
        return [self._jdk.command, *options, *sharing, "-XX:TieredStopAtLevel=1", logging, "-cp", self._classpath]

    @property
    def _classpath(self) -> str:
        return f"{self._jars}/*"

    @property
    def _archive(self) -> Path:
        return self._jars / java.archive_name("classes", self._jdk)

    @property
    def _new_archive(self) -> Path:
        return self.directory / "classes.jsa"

    def _keep_archive(self) -> None:
        if self._new_archive.exists():
            half_done = self._archive.with_suffix(f".{os.getpid()}")
            shutil.move(self._new_archive, half_done)
            half_done.replace(self._archive)

    def _format(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "log4j.properties").write_text(LOGGING)
        properties = self._defaults() | self._properties
        self._server_properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        try:
            self.tool("kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(self._server_properties))
        except subprocess.CalledProcessError as e:
            said = _without_frames(e.stdout + e.stderr)
            why = next((line for line in said if "Exception" in line), said[-1] if said else str(e))
            raise BrokerError(f"Kafka {self.version} cannot format its storage: {why}") from e

    def _defaults(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.port + 1}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.port + 1}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "5",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            # on a busy machine, three brokers that start together need more than the default of one minute
            "initial.broker.registration.timeout.ms": str(int(START_TIMEOUT_S * 1000)),
            # a scan for timed-out transactions every 300 ms instead of every 10 s
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
        }

    def _wait_until_it_answers(self) -> None:
        give_up = time.monotonic() + START_TIMEOUT_S
        settings = ClientSettings.load(self.bootstrap, None)
        while True:
            if self.poll() is not None:
                raise BrokerError(f"Kafka {self.version} ended while it started: {self._first_error()}")
            if not is_free(self.port) and _answers(settings):
                return
            if time.monotonic() > give_up:
                raise BrokerError(
                    f"Kafka {self.version} does not answer within {START_TIMEOUT_S:.0f} s:\n{self.log_tail()}"
                )
            time.sleep(0.1)


def _without_frames(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if not line.lstrip().startswith("at ")]


def _answers(settings: ClientSettings) -> bool:
    """Returns True if the broker answers. Call this function only once the port is in use: a client that finds no
    listener retries for seconds."""
    try:
        with KafkaClient(settings) as client:
            cluster_id(client)
    except KafkaFailure:
        return False
    return True


def is_free(port: int) -> bool:
    """Returns True if a server could listen on `port` of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
