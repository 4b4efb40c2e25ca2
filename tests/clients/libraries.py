"""Makes the commands that start the applications. Fetches the packages that the applications need, except aiokafka, and
checks these packages against pinned checksums."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.demo.broker import Broker
from deploy.demo.jars import LOGGING, Jars, Module, fetch, fetch_pinned, pin
from spark_jobs.runtime.java import find_java
from tests.helpers.waiting import LIMIT_S

HERE: Final = Path(__file__).parent
STREAMS: Final = HERE / "streams"
STREAMS_VERSION: Final = "4.3.1"
STREAMS_JARS: Final = Jars(
    f"Kafka Streams {STREAMS_VERSION}",
    (
        # the jars of the broker include the other dependencies
        Module("org.apache.kafka", "kafka-streams", STREAMS_VERSION, alone=True),
        Module("org.rocksdb", "rocksdbjni", "10.1.3", alone=True),
    ),
    STREAMS / f"{STREAMS_VERSION}.sha256",
)
FLINK: Final = HERE / "flink"
FLINK_VERSION: Final = "2.2.0"
FLINK_JARS: Final = Jars(
    f"Flink {FLINK_VERSION}",
    (
        Module("org.apache.flink", "flink-clients", FLINK_VERSION),
        Module("org.apache.flink", "flink-connector-base", FLINK_VERSION),
        Module("org.apache.flink", "flink-connector-kafka", "5.0.0-2.2"),
        LOGGING,
    ),
    FLINK / f"{FLINK_VERSION}.sha256",
)
CONNECT: Final = HERE / "connect"
CONNECT_VERSION: Final = "4.3.1"
CONNECT_JARS: Final = Jars(
    f"Kafka Connect {CONNECT_VERSION}",
    (Module("org.apache.kafka", "connect-runtime", CONNECT_VERSION), LOGGING),
    CONNECT / f"{CONNECT_VERSION}.sha256",
)
SPRING: Final = HERE / "spring"
SPRING_VERSION: Final = "2.9.13"  # the last release line with a producer for each input partition
SPRING_JARS: Final = Jars(
    f"Spring Kafka {SPRING_VERSION}",
    (Module("org.springframework.kafka", "spring-kafka", SPRING_VERSION), LOGGING),
    SPRING / f"{SPRING_VERSION}.sha256",
)
KAFKAJS: Final = HERE / "kafkajs"
_LOGGING: Final = f"-Dlog4j.configuration=file:{HERE / 'log4j.properties'}"


class NotHere(Exception):
    """Raised if this machine lacks something that a client needs. The message has one line."""


def aiokafka() -> list[str]:
    if importlib.util.find_spec("aiokafka") is None:
        raise NotHere("aiokafka is not installed; to install it, run: make venv")
    return [sys.executable, str(HERE / "aiokafka_client.py")]


def kafkajs(directory: Path) -> list[str]:
    """Installs KafkaJS into `directory`, as package-lock.json pins it, and returns the command. Raises NotHere without
    Node.js or npm."""
    node, npm = (_found(name, "KafkaJS needs it") for name in ("node", "npm"))
    shutil.copytree(KAFKAJS, directory)
    install = [npm, "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"]
    done = subprocess.run(install, cwd=directory, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, f"npm ci: {done.stderr}"
    return [node, str(directory / "client.js")]


@dataclass(frozen=True)
class Streams:
    """Orders.java, a Kafka Streams application. `directory` has its classes and its state. `instances` has the
    arguments that name its instances."""

    broker: Broker
    directory: Path
    instances: tuple[str, ...]

    def compile(self) -> None:
        self._scratch.mkdir(parents=True)
        _compile(STREAMS / "Orders.java", self._classes, _streams_jars())

    def command(self, topic: str, pause_ms: int) -> list[str]:
        logging = f"-Dlog4j.configuration=file:{self.broker.directory}/log4j.properties"
        scratch = f"-Djava.io.tmpdir={self._scratch}"  # RocksDB unpacks its native library in this folder
        return [
            *_java("384m", scratch, logging, "-cp", f"{self._classes}:{_streams_jars()}", "Orders"),
            *(self.broker.bootstrap, topic, str(self.directory / "state"), str(pause_ms), *self.instances),
        ]

    @property
    def _classes(self) -> Path:
        return self.directory / "classes"

    @property
    def _scratch(self) -> Path:
        return self.directory / "tmp"


@dataclass(frozen=True)
class Flink:
    """Readings.java, an Apache Flink job. `directory` has its classes and its checkpoints."""

    bootstrap: str
    directory: Path

    def compile(self) -> None:
        (self.directory / "tmp").mkdir(parents=True)
        _compile(FLINK / "Readings.java", self.directory / "classes", f"{fetch_pinned(FLINK_JARS)}/*")

    def command(self, topic: str, timeout_ms: int) -> list[str]:
        opened = (
            f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util")
        )  # opened for Kryo
        return [
            *_java("384m", *opened, f"-Djava.io.tmpdir={self.directory / 'tmp'}", _LOGGING),
            *("-cp", f"{self.directory / 'classes'}:{fetch_pinned(FLINK_JARS)}/*", "Readings"),
            *(self.bootstrap, topic, str(self.directory / "state"), str(timeout_ms)),
        ]


@dataclass(frozen=True)
class Spring:
    """Relay.java, a Spring application, compiled into `directory`. `prefix` is the prefix of its transactional.ids."""

    bootstrap: str
    directory: Path
    prefix: str

    def compile(self) -> None:
        _compile(SPRING / "Relay.java", self.directory, f"{fetch_pinned(SPRING_JARS)}/*")

    def command(self, source: str, target: str, group: str) -> list[str]:
        return [
            *_java("192m", _LOGGING, "-cp", f"{self.directory}:{fetch_pinned(SPRING_JARS)}/*", "Relay"),
            *(self.bootstrap, source, target, group, self.prefix),
        ]


@dataclass(frozen=True)
class Connect:
    """A Kafka Connect worker with the source connector of Lines.java, which reads files exactly once. Its REST
    interface listens on `port`."""

    bootstrap: str
    directory: Path
    group: str
    port: int

    def compile(self) -> None:
        _compile(CONNECT / "Lines.java", self._classes, f"{fetch_pinned(CONNECT_JARS)}/*")

    @property
    def _classes(self) -> Path:
        return self.directory / "classes"

    def command(self) -> list[str]:
        """Writes the worker's settings, and returns the command."""
        properties = self.directory / "worker.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        return [
            *_java("384m", _LOGGING, "-cp", f"{self._classes}:{fetch_pinned(CONNECT_JARS)}/*"),
            *("org.apache.kafka.connect.cli.ConnectDistributed", str(properties)),
        ]

    def _settings(self) -> dict[str, str]:
        topics = {f"{topic}.storage.topic": f"{self.group}-{topic}" for topic in ("config", "offset", "status")}
        replication = {f"{topic}.storage.replication.factor": "1" for topic in ("config", "offset", "status")}
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "exactly.once.source.support": "enabled",
            "listeners": f"http://127.0.0.1:{self.port}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "session.timeout.ms": "6000",  # a killed worker is noticed after 6 s instead of 10 s
            **topics,
            **replication,
        }


def _java(memory: str, *options: str) -> list[str]:
    return [find_java(os.environ).command, f"-Xmx{memory}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options]


def _compile(source: Path, classes: Path, jars: str) -> None:
    """Compiles `source`. Raises NotHere without a JDK."""
    java = find_java(os.environ)
    compiler = java.home / "bin" / "javac"
    if not compiler.exists():
        raise NotHere(f"{source.name} needs a JDK, but Java {java.version} of {java.source} has no javac")
    command = [str(compiler), "-d", str(classes), "-cp", jars, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, f"javac: {done.stdout}{done.stderr}"


def _streams_jars() -> str:
    return f"{fetch_pinned(STREAMS_JARS)}/*:{fetch(STREAMS_VERSION)}/*"


def _found(name: str, why: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise NotHere(f"{name} is not on PATH, but {why}")
    return path


if __name__ == "__main__":  # run after a change of a version: records the checksums of its jars
    for jars in (STREAMS_JARS, FLINK_JARS, CONNECT_JARS, SPRING_JARS):
        pin(jars)
