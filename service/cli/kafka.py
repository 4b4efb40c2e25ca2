"""Checks the brokers of the settings, and builds the arguments of processes that use them.

The check comes first because a JVM takes seconds to report a bad setting.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import quote

from service.cli.errors import CommandFailed
from service.domain.retention_policy import DEFAULT
from service.kafka.errors import BadClientConfig
from service.kafka.settings import Clients, ClientSettings
from service.processes.supervisor import ChildCommand, Silence
from service.settings import Settings, flag, for_ingest
from service.watched_clusters import STALLED, WatchedCluster


def ingest_arguments(settings: Settings) -> list[str]:
    """Returns `python -m spark_jobs …`; the process finds the store in its environment (`settings.for_children`).

    CommandFailed for an address, file or key that cannot be used.
    """
    client_settings(settings)
    arguments = [sys.executable, "-m", "spark_jobs", *broker_arguments(settings)]
    for name, value in {
        "--cluster": settings.cluster,
        "--checkpoint": settings.checkpoint,
        "--spark-master": settings.spark_master,
        "--partitions": settings.partitions if settings.partitions != STALLED else None,
    }.items():
        if value is not None:
            arguments += [name, str(value)]
    for name, globs in {"--topics": settings.topics, "--mirrored": settings.mirrored}.items():
        if globs:
            arguments += [name, *globs]
    if settings.rules.rules:
        arguments += ["--rules", settings.rules.dump()]
    if settings.keep != DEFAULT:
        arguments += ["--keep", settings.keep.dump()]
    return arguments


def watched_clusters(settings: Settings) -> list[Settings]:
    """Returns the settings for each cluster to watch: those of `[[clusters]]`, or of the one with the name in
    `--cluster`; without such tables the one of the flags.

    CommandFailed if the flags and the tables do not fit together.
    """
    if not settings.clusters:
        return [settings]
    for name in ("bootstrap_servers", "kafka_config", "remediation_config", "topics", "mirrored"):
        if getattr(settings, name):
            raise CommandFailed(f"{flag(name)}: [[clusters]] says that for each cluster: leave it out")
    names = [one.name for one in settings.clusters]
    if settings.cluster is not None and settings.cluster not in names:
        raise CommandFailed(f"--cluster {settings.cluster}: [[clusters]] has {', '.join(names)}")
    return [_for_cluster(settings, one) for one in settings.clusters if settings.cluster in (None, one.name)]


def _for_cluster(settings: Settings, one: WatchedCluster) -> Settings:
    own = {
        "cluster": one.name,
        "clusters": (),
        "bootstrap_servers": one.bootstrap_servers,
        "kafka_config": one.kafka_config,
        "remediation_config": one.remediation_config,
        "topics": one.topics,
        "mirrored": one.mirrored,
        "partitions": one.partitions,
        "checkpoint": None if settings.checkpoint is None else settings.checkpoint / quote(one.name, safe=""),
    }
    return settings.model_copy(update=own)


def single_cluster(settings: Settings) -> Settings:
    """Returns the settings for the one cluster that a command asks about. CommandFailed if `[[clusters]]` has several
    and `--cluster` names none."""
    found = watched_clusters(settings)
    if len(found) > 1:
        raise CommandFailed(f"--cluster is missing: one of {', '.join(str(one.cluster) for one in found)}")
    return found[0]


def ingest_children(settings: Settings) -> list[ChildCommand]:
    """Returns a child for each cluster to watch. Where there are several, none of them ends the others: not by brokers
    that cannot be reached, not by settings that do not work.

    Errors as `ingest_arguments` and `watched_clusters`.
    """
    found = watched_clusters(settings)
    if len(found) == 1:
        return [ChildCommand("ingest", ingest_arguments(found[0]), for_ingest(settings), Silence())]
    return [
        ChildCommand(f"ingest {one.cluster}", ingest_arguments(one), for_ingest(settings), Silence(), final=frozenset())
        for one in found
    ]


def service_clients(settings: Settings) -> Clients:
    """Returns the settings of the clients with which the service asks: of each cluster of `[[clusters]]`, and of
    --bootstrap-servers. Errors as `client_settings`."""
    return _clients(settings, client_settings)


def remediation_clients(settings: Settings) -> Clients:
    """Returns the settings of the clients with which the service writes markers: by --remediation-config, where it is
    given. Errors as `client_settings`."""
    return _clients(settings, _remediation_settings)


def _clients(settings: Settings, client_of: Callable[[Settings], ClientSettings]) -> Clients:
    by_name = {str(one.cluster): client_of(one) for one in watched_clusters(settings) if settings.clusters}
    return Clients(client_of(settings) if settings.bootstrap_servers or settings.kafka_config else None, by_name)


def _remediation_settings(settings: Settings) -> ClientSettings:
    if not settings.remediation_config:
        return client_settings(settings)
    servers = ",".join(client_settings(settings).bootstrap_servers)
    return client_settings(
        settings.model_copy(update={"bootstrap_servers": servers, "kafka_config": settings.remediation_config})
    )


def client_settings(settings: Settings) -> ClientSettings:
    """Returns the settings of a Kafka client. CommandFailed for an address, file or key that cannot be used, or without
    an address.
    """
    if not settings.bootstrap_servers and not settings.kafka_config:
        raise CommandFailed("--bootstrap-servers is missing: give HOST:PORT[,…]")
    try:
        return ClientSettings.load(settings.bootstrap_servers or None, settings.kafka_config)
    except BadClientConfig as error:
        raise CommandFailed(str(error)) from error


def notes(settings: Settings) -> Iterator[str]:
    """Yields a line for each thing in a client.properties that has no effect. What is wrong there is left to the
    command."""
    for one in (settings, *(_for_cluster(settings, table) for table in settings.clusters)):
        for file in (one.kafka_config, one.remediation_config or one.kafka_config):
            with suppress(BadClientConfig):
                yield from ClientSettings((), file=file).latest().notes(one.bootstrap_servers)


def broker_arguments(settings: Settings) -> list[str]:
    """Returns the flags that name the same brokers to another process."""
    given = {"--bootstrap-servers": settings.bootstrap_servers, "--kafka-config": settings.kafka_config}
    return [text for name, value in given.items() if value is not None for text in (name, str(value))]
