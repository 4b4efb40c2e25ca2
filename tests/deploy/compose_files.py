"""Reads deploy/compose as Docker does: variables are substituted, and mounts lead to files of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import yaml

from tests.helpers.paths import ROOT

COMPOSE: Final = ROOT / "deploy" / "compose"
SECRETS: Final = {"POSTGRES_PASSWORD": "s3cret-store", "GRAFANA_PASSWORD": "s3cret-grafana"}
OURS: Final = ("job", "service")

_VARIABLE: Final = re.compile(r"\$\{(?P<name>\w+)(?::(?P<sign>[-?])(?P<rest>[^}]*))?\}")


class Mount(NamedTuple):
    """A file or folder of the repository that is mounted in a container."""

    source: Path
    target: PurePosixPath
    mode: str


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def example_environment() -> dict[str, str]:
    """Returns the variables of .env.example, with values for the passwords that the user has to set."""
    return dict(re.findall(r"^(\w+)=(.*)$", (COMPOSE / ".env.example").read_text("utf-8"), re.MULTILINE)) | SECRETS


def compose(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns compose.yml with variables substituted. Raises KeyError if a required variable is missing."""
    given = example_environment() if environment is None else environment

    def put_in(match: re.Match[str]) -> str:
        value = given.get(match["name"], "")
        if match["sign"] == "?" and not value:
            raise KeyError(match["name"])
        return value or (match["rest"] or "" if match["sign"] == "-" else "")

    def interpolated(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: interpolated(item) for key, item in value.items()}
        if isinstance(value, list):
            return [interpolated(item) for item in value]
        return _VARIABLE.sub(put_in, value) if isinstance(value, str) else value

    read: dict[str, Any] = interpolated(read_yaml(COMPOSE / "compose.yml"))
    return read


def variables() -> set[str]:
    return {match["name"] for match in _VARIABLE.finditer((COMPOSE / "compose.yml").read_text("utf-8"))}


def mounts(service: Mapping[str, Any]) -> Iterator[Mount]:
    """Yields the mounts of files and folders of the repository. Leaves out named volumes."""
    for volume in service.get("volumes", ()):
        source, target, *mode = volume.split(":")
        if source.startswith("."):
            yield Mount((COMPOSE / source).resolve(), PurePosixPath(target), ":".join(mode))


def behind(service: Mapping[str, Any], path: str) -> Path:
    """Returns the path on the host that is mounted at this path of the container. Raises AssertionError if nothing is
    mounted there."""
    for mount in mounts(service):
        if PurePosixPath(path).is_relative_to(mount.target):
            return mount.source / PurePosixPath(path).relative_to(mount.target)
    raise AssertionError(f"nothing is mounted at {path}")


def published(service: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Returns (address, port of the host, port of the container) of each published port."""
    found = (port.rsplit(":", 2) for port in service.get("ports", ()))
    return [(address, int(host), int(container)) for address, host, container in found]
