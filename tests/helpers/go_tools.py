"""Finds Helm, kube-score and Kubernetes' API server. Debian 12 has no packages of these programs. So Go builds pinned
versions, once, into the user's cache. `python -m tests.helpers.go_tools` builds Helm and kube-score.

Go verifies downloads with its public checksum database.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

BUILD_S: Final = 2_400
"""Longest time (s) of one command of Go. With an empty cache, Helm took 4 minutes of processor time, and kube-score
took one more minute."""


class GoTool(NamedTuple):
    """A program that Go builds. `package` is the package of the program's `main`. `module` is the program's module, or
    empty if `go install` can build the program. `go install` refuses a module that replaces its requirements by local
    folders."""

    name: str
    package: str
    version: str
    module: str = ""

    @property
    def path(self) -> Path:
        """The path of the program in the user's cache, whether or not the file exists."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "txnscope" / "tools" / f"{self.name}-{self.version}"


HELM: Final = GoTool("helm", "helm.sh/helm/v3/cmd/helm", "v3.22.0")
KUBE_SCORE: Final = GoTool("kube-score", "github.com/zegl/kube-score/cmd/kube-score", "v1.20.0")
API_SERVER: Final = GoTool(
    "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "v1.37.2", module="k8s.io/kubernetes"
)
TOOLS: Final = (HELM, KUBE_SCORE)


class ToolMissing(Exception):
    """Raised if a tool cannot be built on this machine. The message is one line."""


def built(tool: GoTool) -> Path:
    """Returns the path of the tool. Builds the tool if it is not in the cache; other processes wait meanwhile. Raises
    ToolMissing if Go is not installed, or if the build fails."""
    if tool.path.exists():
        return tool.path
    if shutil.which("go") is None:
        raise ToolMissing(f"Go (1.21 or newer) is needed to build {tool.name}, but there is no `go` on PATH")
    tool.path.parent.mkdir(parents=True, exist_ok=True)
    with (tool.path.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tool.path.exists():
            _build(tool)
    return tool.path


def _build(tool: GoTool) -> None:
    sys.stderr.write(f"building {tool.name} {tool.version} (once, some minutes) …\n")
    linked = "-ldflags=-s -w"
    with tempfile.TemporaryDirectory(prefix="build-", dir=tool.path.parent) as scratch:
        if tool.module:
            _write_module(tool, Path(scratch))
            _go(tool, scratch, "mod", "tidy", "-e")
            linked += f" -X k8s.io/component-base/version.gitVersion={tool.version}"
            _go(tool, scratch, "build", "-trimpath", linked, "-o", tool.name, tool.package)
        else:
            _go(tool, scratch, "install", "-trimpath", linked, f"{tool.package}@{tool.version}")
        (Path(scratch) / tool.name).rename(tool.path)


def _write_module(tool: GoTool, folder: Path) -> None:
    """Writes a module that requires the tool. The tool's own module requires other modules of Kubernetes in version
    v0.0.0. The written module replaces these by their published versions, such as v0.37.2 if the tool has the version
    v1.37.2."""
    described = json.loads(_go(tool, str(folder), "mod", "download", "-json", f"{tool.module}@{tool.version}"))
    theirs = Path(described["GoMod"]).read_text("utf-8")
    beside = sorted(set(re.findall(r"^\s*(k8s\.io/[a-z-]+) v0\.0\.0$", theirs, re.MULTILINE)))
    needs = re.findall(r"^go .*$", theirs, re.MULTILINE)[0]
    published = tool.version.replace("v1.", "v0.", 1)
    replaced = "".join(f"replace {name} => {name} {published}\n" for name in beside)
    (folder / "go.mod").write_text(f"module built\n\n{needs}\n\nrequire {tool.module} {tool.version}\n\n{replaced}")
    (folder / "tools.go").write_text(f'//go:build tools\n\npackage tools\n\nimport _ "{tool.package}"\n')


def _go(tool: GoTool, folder: str, *words: str) -> str:
    """Runs Go in `folder`, into which `go install` also writes programs. Returns the output. Raises ToolMissing if Go
    fails, or takes longer than BUILD_S."""
    environment = os.environ | {"GOBIN": folder}
    try:
        done = subprocess.run(
            ["go", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolMissing(f"{tool.name} was not built within {BUILD_S} s") from error
    if done.returncode:
        raise ToolMissing(f"{tool.name} could not be built: {(done.stderr.strip().splitlines() or ['?'])[-1][:300]}")
    return done.stdout


def main() -> None:
    """Builds Helm and kube-score. Prints which of them cannot be built, and why. Tests that need a missing tool are
    skipped."""
    for tool in TOOLS:
        try:
            built(tool)
        except ToolMissing as error:
            sys.stderr.write(f"{error}; tests that need {tool.name} are skipped\n")


if __name__ == "__main__":
    main()
