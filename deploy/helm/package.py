"""Packages the chart as `helm package` does. Equal content gives equal bytes. In the chart's folder, the dashboards and
rules are links to `dashboards/`; in the package they are files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.helm.values_table import CHART
from deploy.release.artifacts import write_tar

_LEFT_OUT: Final = (".lint",)
"""Names of files that are not packed. The other patterns of `.helmignore` match no file of the repository."""


def write_package(folder: Path) -> Path:
    """Writes the package into `folder`, and returns its path."""
    described: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    name = described["name"]
    packed = ((f"{name}/{file.relative_to(CHART).as_posix()}", file.read_bytes()) for file in files())
    return write_tar(folder / f"{name}-{described['version']}.tgz", packed)


def files() -> Iterator[Path]:
    """Yields the files of the chart in order. Chart.yaml comes first, because Helm reads it before all other files."""
    below = sorted(file for file in _below(CHART) if file.name not in _LEFT_OUT)
    yield from sorted(below, key=lambda file: file.name != "Chart.yaml")


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():  # not rglob: it does not follow links to folders
        if path.is_dir():
            yield from _below(path)
        else:
            yield path
