"""The Kafka clusters to watch: the settings that each has of its own, from `[[clusters]]` of the configuration."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

STALLED: Final = "stalled"
ALL: Final = "all"
_GLOB: Final = re.compile(r"[A-Za-z0-9._*?\[\]!-]+")


@dataclass(frozen=True, slots=True)
class WatchedCluster:
    """A cluster and how it is watched; the fields but `name` are as the flags of the same names."""

    name: str
    bootstrap_servers: str | None
    kafka_config: Path | None = None
    remediation_config: Path | None = None
    topics: tuple[str, ...] = ()
    mirrored: tuple[str, ...] = ()
    partitions: str = STALLED


def parse(tables: object) -> tuple[WatchedCluster, ...]:
    """Returns the clusters of `[[clusters]]`, or of their JSON. ValueError: one line that names the mistake."""
    if isinstance(tables, str):
        try:
            tables = json.loads(tables)
        except json.JSONDecodeError:
            raise ValueError("not JSON like the tables [[clusters]]") from None
    if not isinstance(tables, list):
        raise ValueError("not a list of tables: write [[clusters]]")
    clusters = tuple(_parse_one(table) for table in tables)
    names = [one.name for one in clusters]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two clusters have the name {twice!r}")
    return clusters


def dump(clusters: Sequence[WatchedCluster]) -> str:
    """Returns JSON that `parse` reads."""
    return json.dumps([asdict(one) for one in clusters], default=str)


def cluster_name(name: str) -> str:
    """Returns the name. ValueError if it cannot be one segment of an API path: servers and clients interpret slashes
    and dots."""
    if "/" in name or name in ("", ".", "..") or name != name.strip() or not name.isprintable():
        raise ValueError("not a name: empty, a dot, or with a slash, a control character or space around it")
    return name


def topic_globs(globs: object) -> tuple[str, ...]:
    """Returns globs of topics, given as a list or as one text with commas or spaces. ValueError names a wrong one."""
    if isinstance(globs, str):
        globs = globs.replace(",", " ").split()
    if not isinstance(globs, list | tuple):
        raise ValueError("not a list of topics")
    for glob in globs:
        if not isinstance(glob, str) or not _GLOB.fullmatch(glob):
            raise ValueError(f"{glob!r} is neither a topic nor a glob like orders-*")
    return tuple(globs)


def partitions_mode(mode: str, topics: tuple[str, ...]) -> str:
    """Returns the mode of reading. ValueError for an unknown one, or one that `topics` do not allow."""
    if mode not in (STALLED, ALL):
        raise ValueError(f"{mode!r}: unknown mode, choose {STALLED} or {ALL}")
    if mode == ALL and not topics:
        raise ValueError("all needs --topics: it reads every byte of these topics")
    return mode


def _parse_one(table: object) -> WatchedCluster:
    if not isinstance(table, dict):
        raise ValueError("not a list of tables: write [[clusters]]")
    known = WatchedCluster.__dataclass_fields__
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(str(key).replace("-", "_").lower(), known, 1)
            raise ValueError(f"unknown key {key!r}" + (f" (did you mean {near[0]}?)" if near else ""))
    name = table.get("name")
    if not isinstance(name, str):
        raise ValueError("a cluster has no name")
    try:
        return _checked(name, {key: value for key, value in table.items() if value is not None})
    except ValueError as error:
        raise ValueError(f"cluster {name!r}: {error}") from None


def _file(table: dict[str, Any], key: str) -> Path | None:
    name = table.get(key)
    if name is not None and (not isinstance(name, str) or not name):
        raise ValueError(f"{key} is not the name of a file")
    return None if name is None else Path(name)


def _checked(name: str, table: dict[str, Any]) -> WatchedCluster:
    servers = table.get("bootstrap_servers")
    if not isinstance(servers, str | None) or not (servers or table.get("kafka_config")):
        raise ValueError("bootstrap_servers is missing: give HOST:PORT[,…]")
    topics = topic_globs(table.get("topics", ()))
    return WatchedCluster(
        cluster_name(name),
        servers,
        _file(table, "kafka_config"),
        _file(table, "remediation_config"),
        topics,
        topic_globs(table.get("mirrored", ())),
        partitions_mode(str(table.get("partitions", STALLED)), topics),
    )
