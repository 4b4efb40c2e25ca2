"""What can be chosen for `make demo`, from the environment; every bad value is one line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from deploy.demo import jars
from deploy.demo.broker import is_free

LAST_PORT = 65_535


class BadOption(Exception):
    """A value that cannot be meant; names the variable."""


class PortTaken(Exception):
    """Somebody else listens where the demo would; says how to go elsewhere."""


class Options(NamedTuple):
    """`port` serves the page, `kafka_port` the broker and the next one its controller.

    `seconds`: how long the demo stays once it is ready; None for until it is stopped.
    """

    port: int = 8080
    kafka_port: int = 19092
    kafka_version: str = "4.3.1"
    seconds: float | None = None


DEFAULTS = Options()


def read(environment: Mapping[str, str] = os.environ) -> Options:
    """PORT, KAFKA_PORT, KAFKA_VERSION, DEMO_SECONDS; an empty one counts as not set. Raises BadOption."""
    port = _port(environment, "PORT", DEFAULTS.port, LAST_PORT)
    kafka_port = _port(environment, "KAFKA_PORT", DEFAULTS.kafka_port, LAST_PORT - 1)
    if port in (kafka_port, kafka_port + 1):
        raise BadOption(f"PORT={port} is one of the broker's two ports, {kafka_port} and {kafka_port + 1}")
    version = environment.get("KAFKA_VERSION") or DEFAULTS.kafka_version
    if version not in jars.versions():
        raise BadOption(f"KAFKA_VERSION={version} is not one of {', '.join(jars.versions())}")
    return Options(port, kafka_port, version, _seconds(environment))


def check_ports(options: Options) -> None:
    """Raises PortTaken with a way out."""
    if not is_free(options.port):
        other = _free_after(options.port, 1, (options.kafka_port, options.kafka_port + 1))
        raise PortTaken(f"port {options.port} is taken, so the page cannot be there: PORT={other} make demo")
    for port in (options.kafka_port, options.kafka_port + 1):
        if not is_free(port):
            other = _free_after(options.kafka_port, 2, (options.port,))
            raise PortTaken(f"port {port} is taken, so the broker cannot be there: KAFKA_PORT={other} make demo")


def _free_after(port: int, count: int, ours: tuple[int, ...]) -> int:
    """The next port from which on `count` are free and not `ours`; 0 where there is none, which nobody has seen."""
    candidates = ((*range(first, first + count),) for first in range(port + 1, LAST_PORT - count))
    return next((block[0] for block in candidates if not {*block} & {*ours} and all(map(is_free, block))), 0)


def _port(environment: Mapping[str, str], name: str, default: int, last: int) -> int:
    text = environment.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= last):
        raise BadOption(f"{name}={text} is not a port between 1 and {last}")
    return int(text)


def _seconds(environment: Mapping[str, str]) -> float | None:
    text = environment.get("DEMO_SECONDS")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise BadOption(f"DEMO_SECONDS={text} is not a whole number of seconds above 0")
    return float(text)
