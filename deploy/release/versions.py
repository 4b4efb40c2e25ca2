"""Writes the version of a release into the files that name it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from deploy.release.changelog import final_of
from deploy.release.commands import ReleaseError


class Place(NamedTuple):
    """The place of a version in a file. `pattern`: finds the version; the first group of the match stays. `value`:
    makes the new text of the version."""

    file: str
    pattern: str
    value: Callable[[str], str]


def chart_version(version: str) -> str:
    """Returns the version as Helm wants it (semver): "1.0.0-rc.1" for 1.0.0rc1."""
    return re.sub(r"rc(\d+)$", r"-rc.\1", version)


_CHART: Final = "deploy/helm/txnscope/Chart.yaml"
_COMPOSE: Final = "deploy/compose/compose.yml"

PLACES: Final = (
    Place("pyproject.toml", r"^(version = ).+$", '"{}"'.format),
    Place("deploy/compose/Containerfile", r"^(ARG VERSION=).+$", '"{}"'.format),
    Place(_CHART, r"^(version: ).+$", chart_version),
    Place(_CHART, r"^(appVersion: ).+$", str),
    Place(_CHART, r"^( +artifacthub\.io/prerelease: ).+$", lambda version: f'"{version != final_of(version)}"'.lower()),
    *(
        Place(file, rf"^( +image: txnscope-{role}:).+$", str)
        for file in (_COMPOSE, _CHART)
        for role in ("job", "service")
    ),
)


def write_version(tree: Path, version: str) -> None:
    """Writes the version into all its places below `tree`. Raises ReleaseError if a place is not there, or is there
    more than once."""
    for file, pattern, value in PLACES:
        path = tree / file
        text, count = re.subn(pattern, rf"\g<1>{value(version)}", path.read_text("utf-8"), flags=re.MULTILINE)
        if count != 1:
            raise ReleaseError(f"{file} has {pattern} {count} times, not once")
        path.write_text(text, "utf-8")
