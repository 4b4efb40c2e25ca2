"""Checks the settings of Kafka clients, and builds the commands of the processes that use them.

The check comes first because a JVM takes seconds to report a bad setting.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from service.canary.configuration import CanaryTable
from service.cli.errors import CommandFailed
from service.kafka.errors import BadClientConfig
from service.kafka.settings import Clients, ClientSettings
from service.processes.supervisor import ChildCommand, Silence
from service.settings import Settings, for_ingest


def ingest_children(settings: Settings) -> list[ChildCommand]:
    """Returns the commands of the child processes, one for each cluster to watch. With several children, the failure of
    one child never ends the others, even if that child's brokers cannot be reached, or its settings do not work.

    Raises SettingsError if flags and `[[clusters]]` do not fit together, and CommandFailed as `client_settings` does.
    """
    found = settings.of_each_cluster()
    for one in found:
        client_settings(one)
    command, environment = [sys.executable, "-m", "spark_jobs"], for_ingest(settings)
    if len(found) == 1:
        return [ChildCommand("ingest", command, environment, Silence())]
    names = [str(settings.cluster) for settings in found]
    return [
        ChildCommand(f"ingest {name}", [*command, "--cluster", name], environment, Silence(), final=frozenset())
        for name in names
    ]


def service_clients(settings: Settings) -> Clients:
    """Returns the settings of the clients with which the service reads from Kafka: one for each of `[[clusters]]`, and
    one for --bootstrap-servers or --kafka-config. Raises CommandFailed as `client_settings` does."""
    return _clients(settings, client_settings)


def remediation_clients(settings: Settings) -> Clients:
    """Returns the settings of the clients with which the service writes markers: those of --remediation-config, or
    without this flag those of `service_clients`. Raises CommandFailed as `client_settings` does."""
    return _clients(settings, _remediation_settings)


def canary_plans(settings: Settings, *, needs_library: bool = True) -> list[tuple[ClientSettings, CanaryTable]]:
    """Returns the canaries to run. For each cluster with a table `[canary]`: the settings of the canary's principal,
    and the table. Raises CommandFailed as `client_settings` does, and if the canary's library is needed and missing."""
    found = [
        (client_settings(_with_principal(one, one.canary.kafka_config)), one.canary)
        for one in settings.of_each_cluster()
        if one.canary is not None
    ]
    if found and needs_library and find_spec("confluent_kafka") is None:
        raise CommandFailed("[canary] needs confluent-kafka; to install it, run: pip install 'txnscope[canary]'")
    return found


def _clients(settings: Settings, client_of: Callable[[Settings], ClientSettings]) -> Clients:
    by_name = {str(one.cluster): client_of(one) for one in settings.of_each_cluster() if settings.clusters}
    return Clients(client_of(settings) if settings.bootstrap_servers or settings.kafka_config else None, by_name)


def _remediation_settings(settings: Settings) -> ClientSettings:
    return client_settings(_with_principal(settings, settings.remediation_config))


def _with_principal(settings: Settings, file: Path | None) -> Settings:
    """Returns the settings with `file` as client.properties, and the same servers; the settings unchanged if `file` is
    None."""
    if file is None:
        return settings
    servers = ",".join(client_settings(settings).bootstrap_servers)
    return settings.model_copy(update={"bootstrap_servers": servers, "kafka_config": file})


def client_settings(settings: Settings) -> ClientSettings:
    """Returns the settings of a Kafka client. Raises CommandFailed for an address, file or key that cannot be used, or
    if neither an address nor a client.properties is given."""
    if not settings.bootstrap_servers and not settings.kafka_config:
        raise CommandFailed("--bootstrap-servers is missing: give HOST:PORT[,…]")
    try:
        return ClientSettings.load(settings.bootstrap_servers or None, settings.kafka_config)
    except BadClientConfig as error:
        raise CommandFailed(str(error)) from error


def notes(settings: Settings) -> Iterator[str]:
    """Yields a line for each key of a client.properties file, and for each scheme of a server's address, that has no
    effect. May yield a line several times. Skips a file with errors, because the command itself reports the errors."""
    for one in (settings, *settings.clusters):
        canary = None if one.canary is None else one.canary.kafka_config
        for file in (one.kafka_config, one.remediation_config or one.kafka_config, canary or one.kafka_config):
            with suppress(BadClientConfig):
                yield from ClientSettings((), file=file).latest().notes(one.bootstrap_servers)
