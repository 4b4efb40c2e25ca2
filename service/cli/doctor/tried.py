"""Reads the records of runs on versions of Kafka, which `make matrix` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from service.domain.doctor.tried_versions import Scenario, Told, TriedVersion, newest_first

FOLDER: Final = Path(__file__).parent / "tried_versions"
"""One file a version, in JSON."""


def read_records(folder: Path = FOLDER) -> list[TriedVersion]:
    """Returns the records, newest version first."""
    return [*newest_first(_record(json.loads(path.read_text("utf-8"))) for path in folder.glob("*.json"))]


def _record(stored: dict[str, Any]) -> TriedVersion:
    return TriedVersion(
        stored["version"],
        stored["date"],
        stored["seconds"],
        stored["workers"],
        stored["abilities"],
        {name: (highest, finalized) for name, (highest, finalized) in stored["features"].items()},
        stored["apis"],
        {name: _scenario(one) for name, one in stored["scenarios"].items()},
    )


def _scenario(stored: dict[str, Any]) -> Scenario:
    told = tuple(Told(*one) for one in stored["told"])
    return Scenario(stored["outcome"], stored["seconds"], tuple(stored["seen"]), told)
