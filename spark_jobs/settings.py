"""The settings of the application, made from the document that `txnscope ingest` or `txnscope watch` passes to it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from service.domain.application_rules import NO_RULES, ApplicationRules
from service.domain.findings.rules import Rules
from service.domain.retention_policy import Keep
from service.kafka.settings import ClientSettings
from service.settings import Settings, load
from spark_jobs.runtime.session import HERE, Master
from spark_jobs.source.reader_settings import ReaderSettings, WatchedTopics


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """The settings of the application. `cluster`: the name of the Kafka cluster; None if its cluster id serves as name.
    `tails`: True if every batch of the watched topics is read. `liveness`: the file or port that shows that the process
    works."""

    client: ClientSettings
    cluster: str | None
    store: str = field(repr=False)
    checkpoint: Path | None
    rules: Rules
    keep: Keep
    watch: WatchedTopics
    tails: bool = False
    applications: ApplicationRules = NO_RULES
    liveness: str | None = None
    master: Master = HERE

    @classmethod
    def of(cls, settings: Settings) -> IngestSettings:
        """Returns the settings of the only cluster in `settings`. Raises SettingsError, BadClientConfig."""
        one = settings.of_one_cluster()
        client = ClientSettings.load(one.bootstrap_servers, one.kafka_config)
        master = Master(one.spark_master, tuple(one.spark_conf.items()))
        return cls(
            client=client if master.is_local else client.portable(),  # executors cannot read files of this machine
            cluster=one.cluster,
            store=one.store,
            checkpoint=one.checkpoint,
            rules=Rules(tuple(table.rule for table in one.rules)),
            keep=one.keep.keep,
            watch=WatchedTopics(one.topics, one.mirrored),
            tails=one.partitions == "all",
            applications=ApplicationRules(tuple(table.rule for table in one.applications)),
            liveness=one.liveness,
            master=master,
        )

    @property
    def reader(self) -> ReaderSettings:
        """Returns the settings that Spark's readers need: those of Kafka's client and of the data to read."""
        return ReaderSettings(
            client=self.client, watch=self.watch, full_history_prefixes=self.rules.kept_prefixes, tails=self.tails
        )


def parse(argv: Sequence[str]) -> IngestSettings:
    """Reads the settings. `--cluster NAME` in `argv` chooses one of several clusters. Raises SystemExit(2) for any
    other flag, SettingsError if a setting cannot be used, BadClientConfig if a client's file or address is bad."""
    parser = argparse.ArgumentParser("python -m spark_jobs", allow_abbrev=False)
    parser.add_argument("--cluster")
    return IngestSettings.of(load(vars(parser.parse_args(argv))))
