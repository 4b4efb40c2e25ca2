"""The flags of `python -m spark_jobs`, the application that `txnscope ingest` and `txnscope watch` start."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from service.domain.findings.rules import Rules
from service.domain.retention_policy import Keep
from service.kafka.settings import ClientSettings
from service.store.backends import DEFAULT_URL
from spark_jobs.runtime.master import HERE, Master
from spark_jobs.source.watched import WatchedTopics

STORE: Final = "TXNSCOPE_STORE"
"""Environment variable with the store's URL: it may hold a password, which a command line would show to everybody."""

SPARK_CONF: Final = "TXNSCOPE_SPARK_CONF"
"""Environment variable with settings of Spark's as JSON, which may hold passwords, too."""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """The settings of the application. `cluster` None: named after the Kafka cluster id. `tails`: every batch of the
    watched topics is read. `liveness`: the file or port that shows that the process works."""

    client: ClientSettings
    cluster: str | None
    store: str = field(repr=False)
    checkpoint: Path | None
    rules: Rules
    keep: Keep
    watch: WatchedTopics
    tails: bool = False
    liveness: str | None = None
    master: Master = HERE


_T = TypeVar("_T")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"txnscope ingest: {message}\n")


def parse(argv: list[str]) -> IngestSettings:
    """Parses the flags. Raises SystemExit(2) with one line for a bad flag, BadClientConfig for a bad file or
    address."""
    parser = _Parser(prog="python -m spark_jobs", allow_abbrev=False)
    parser.add_argument("--bootstrap-servers")
    parser.add_argument("--kafka-config", type=Path)
    parser.add_argument("--cluster")
    parser.add_argument("--store", default=os.environ.get(STORE) or DEFAULT_URL)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--liveness")
    parser.add_argument("--spark-master")
    parser.add_argument("--rules", type=_json(Rules.load), default=Rules())  # the command line has read the file
    parser.add_argument("--keep", type=_json(Keep.load), default=Keep())
    parser.add_argument("--partitions", choices=("stalled", "all"), default="stalled")
    parser.add_argument("--topics", nargs="+", default=[])
    parser.add_argument("--mirrored", nargs="+", default=[])
    flags = parser.parse_args(argv)
    tails = flags.partitions == "all"
    if tails and not flags.topics:
        parser.error("partitions: all needs --topics: it reads every byte of these topics")
    client = ClientSettings.load(flags.bootstrap_servers, flags.kafka_config)
    master = Master(flags.spark_master, _spark_conf())
    return IngestSettings(
        client=client if master.is_local else client.portable(),  # executors have none of our files
        cluster=flags.cluster,
        store=flags.store,
        checkpoint=flags.checkpoint,
        rules=flags.rules,
        keep=flags.keep,
        watch=WatchedTopics(tuple(flags.topics), tuple(flags.mirrored)),
        tails=tails,
        liveness=flags.liveness,
        master=master,
    )


def _spark_conf() -> tuple[tuple[str, str], ...]:
    conf: dict[str, str] = json.loads(os.environ.get(SPARK_CONF) or "{}")
    return tuple(conf.items())


def _json(load: Callable[[str], _T]) -> Callable[[str], _T]:
    def read(text: str) -> _T:
        try:
            return load(text)
        except (ValueError, TypeError, AttributeError):
            raise argparse.ArgumentTypeError("not the settings that `txnscope ingest` passes as JSON") from None

    return read
