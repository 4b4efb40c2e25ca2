"""Options of `make demo` and `make demo-full`, read from the environment; a bad value is reported in one line. Also
has the settings of the demo's broker. With these settings, events that take hours or days in a real cluster take about
a minute."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from deploy.demo import jars
from deploy.demo.broker import is_free

PROPERTIES = {
    # a transaction is aborted at most a second after its timeout (Kafka's default: 10 s)
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # an id expires when it was unused for a minute (default: 7 days), and is removed within 5 s (default: 1 h)
    "transactional.id.expiration.ms": "60000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "5000",
    "transaction.state.log.num.partitions": "10",
    "offsets.topic.num.partitions": "10",
}
WORKLOAD_TIMEOUT_MS = 10_000
"""Timeout (ms) of the transactions that the workload lets time out: long enough for people to see them open."""


LAST_PORT = 65_535
FIRST_UNPRIVILEGED = 1_024


class BadOption(Exception):
    """A value is not valid, or two ports conflict. The message names the variables."""


class PortTaken(Exception):
    """Another process listens on a port of the demo. The message says how to choose another port."""


class MonitoringPorts(NamedTuple):
    """Ports of the programs that `make demo-full` adds."""

    prometheus_port: int = 9090
    alertmanager_port: int = 9093


class Options(NamedTuple):
    """Options of the demo. `port`: port of the pages. `kafka_port`: port of the broker; the controller gets the next
    port. `seconds`: time for which the demo runs once it is ready; None if it runs until it is stopped.
    `monitoring_ports`: None for `make demo`."""

    port: int = 8080
    kafka_port: int = 19092
    kafka_version: str = "4.3.1"
    seconds: float | None = None
    monitoring_ports: MonitoringPorts | None = None


DEFAULTS = Options()
_MONITORING_VARIABLES = ("PROMETHEUS_PORT", "ALERTMANAGER_PORT")
"""Environment variables, in the order of MonitoringPorts."""


class _ProgramPorts(NamedTuple):
    """Consecutive ports that one program needs, and the environment variable that changes them."""

    variable: str
    ports: range
    program: str


def read(environment: Mapping[str, str] = os.environ, *, full: bool = False) -> Options:
    """Reads PORT, KAFKA_PORT, KAFKA_VERSION, DEMO_SECONDS, and if `full` PROMETHEUS_PORT and ALERTMANAGER_PORT. An
    empty variable counts as not set. Raises BadOption."""
    port = _port(environment, "PORT", DEFAULTS.port, LAST_PORT)
    kafka_port = _port(environment, "KAFKA_PORT", DEFAULTS.kafka_port, LAST_PORT - 1)
    version = environment.get("KAFKA_VERSION") or DEFAULTS.kafka_version
    if version not in jars.versions():
        raise BadOption(f"KAFKA_VERSION={version} is not one of {', '.join(jars.versions())}")
    options = Options(
        port, kafka_port, version, _seconds(environment), _monitoring_ports(environment) if full else None
    )
    for ports, other in combinations(_all_ports(options), 2):
        if shared := {*ports.ports} & {*other.ports}:
            given = f"{ports.variable}={ports.ports[0]} and {other.variable}={other.ports[0]}"
            raise BadOption(f"{given} conflict: both need port {min(shared)}")
    return options


def check_ports(options: Options) -> None:
    """Raises PortTaken if a port of the demo is taken. The message contains a setting with a free port."""
    all_ports = _all_ports(options)
    ours = {port for program_ports in all_ports for port in program_ports.ports}
    for program_ports in all_ports:
        if taken := [port for port in program_ports.ports if not is_free(port)]:
            other = _free_after(program_ports.ports[0], len(program_ports.ports), ours)
            target = "demo" if options.monitoring_ports is None else "demo-full"
            way_out = f"{program_ports.variable}={other} make {target}"
            raise PortTaken(
                f"port {taken[0]} is taken, so {program_ports.program} cannot use it; to use another, run: {way_out}"
            )


def _all_ports(options: Options) -> list[_ProgramPorts]:
    page, kafka, monitoring_ports = options.port, options.kafka_port, options.monitoring_ports
    all_ports = [
        _ProgramPorts("PORT", range(page, page + 1), "the page"),
        _ProgramPorts("KAFKA_PORT", range(kafka, kafka + 2), "the broker"),
    ]
    if monitoring_ports is not None:
        for name, program, port in zip(
            _MONITORING_VARIABLES, ("Prometheus", "Alertmanager"), monitoring_ports, strict=True
        ):
            all_ports.append(_ProgramPorts(name, range(port, port + 1), program))
    return all_ports


def _free_after(port: int, count: int, ours: set[int]) -> int:
    """Returns the first port after `port` at which `count` consecutive free ports begin, none of them in `ours`. If
    there is none, searches below `port`. Returns 0 if no port is left."""
    last = LAST_PORT - count + 1
    firsts = (*range(port + 1, last + 1), *range(FIRST_UNPRIVILEGED, min(port, last) + 1))
    candidates = ((*range(first, first + count),) for first in firsts)
    return next((block[0] for block in candidates if ours.isdisjoint(block) and all(map(is_free, block))), 0)


def _port(environment: Mapping[str, str], name: str, default: int, last: int) -> int:
    text = environment.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= last):
        raise BadOption(f"{name}={text} is not a port between 1 and {last}")
    return int(text)


def _monitoring_ports(environment: Mapping[str, str]) -> MonitoringPorts:
    pairs = zip(_MONITORING_VARIABLES, MonitoringPorts(), strict=True)
    return MonitoringPorts(*(_port(environment, name, default, LAST_PORT) for name, default in pairs))


def _seconds(environment: Mapping[str, str]) -> float | None:
    text = environment.get("DEMO_SECONDS")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise BadOption(f"DEMO_SECONDS={text} is not a whole number of seconds above 0")
    return float(text)
