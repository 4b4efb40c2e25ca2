"""Packages the chart as `helm package` does. Equal content gives equal bytes: the package has no times, owners or modes
of this machine. In the chart's folder, the dashboards and rules are links to `dashboards/`; in the package they are
files."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.helm.values_table import CHART

_LEFT_OUT: Final = (".lint",)
"""Names of files that are not packed: those of `.helmignore`."""


def write_package(folder: Path) -> Path:
    """Writes the package into `folder`, and returns its path."""
    described: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    path = folder / f"{described['name']}-{described['version']}.tgz"
    folder.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in files():
            content = file.read_bytes()
            member = tarfile.TarInfo(f"{described['name']}/{file.relative_to(CHART).as_posix()}")
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return path


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
