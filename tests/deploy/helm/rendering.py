"""Renders the chart with Helm, for its example values and for other values."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.helm.values_table import CHART
from tests.helpers.go_tools import HELM, GoTool
from tests.helpers.waiting import LIMIT_S

EXAMPLES: Final = {file.stem: file for file in sorted((CHART.parent / "examples").glob("*.yaml"))}
RELEASE: Final = "obs"
NAMESPACE: Final = "observability"
NEWEST: Final = "1.37.0"
"""The version of Kubernetes that Helm renders for. If Helm was built by `go install`, its default is v1.20."""

Manifest = dict[str, Any]


def tool(wanted: GoTool) -> Path:
    """Returns the path of the tool. Skips the test if the tool was not built."""
    if not wanted.path.exists():
        pytest.skip(f"{wanted.name} is not built; to build it, run `make chart-tools`")
    return wanted.path


def helm(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(tool(HELM)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def template(*arguments: object, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    return helm("template", RELEASE, chart, "--namespace", NAMESPACE, "--kube-version", NEWEST, *arguments)


@cache
def rendered_text(example: str, *more: str, chart: Path = CHART) -> str:
    """Returns what Helm renders for the example; `more`: further arguments, such as `--set`."""
    done = template("--values", EXAMPLES[example], *more, chart=chart)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def rendered(example: str, *more: str) -> list[Manifest]:
    """Returns the manifests of the example. All tests share these manifests, so a test must copy what it changes."""
    return [one for one in yaml.safe_load_all(rendered_text(example, *more)) if one is not None]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def component(manifest: Manifest) -> str:
    return str(manifest["metadata"]["labels"].get("app.kubernetes.io/component", ""))


def one(manifests: list[Manifest], kind: str, part: str = "") -> Manifest:
    """Returns the only manifest of this kind. If `part` is given, only manifests of this component count."""
    (found,) = [m for m in of_kind(manifests, kind) if not part or component(m) == part]
    return found


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yields (component, spec of the pod) of everything that runs pods."""
    for manifest in manifests:
        spec = manifest.get("spec", {})
        if manifest["kind"] == "Pod":
            yield component(manifest), spec
        elif manifest["kind"] in ("Deployment", "Job"):
            yield component(manifest), spec["template"]["spec"]


def mounted(pod: Manifest, container: Manifest) -> dict[str, Manifest]:
    """Returns a mapping from each mount path of the container to the volume that is mounted there."""
    volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
    return {mount["mountPath"]: volumes[mount["name"]] for mount in container.get("volumeMounts", ())}
