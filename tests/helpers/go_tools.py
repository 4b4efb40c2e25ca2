"""Finds Helm and kube-score. Debian 12 packages neither, so Go builds them, once, in pinned versions, into the user's
cache: `python -m tests.helpers.go_tools` builds all of them.

Go checks what it downloads against its public checksum database.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

BUILD_S: Final = 1_200
"""Longest time (s) of a build. Helm took 4 minutes of processor time with an empty cache, kube-score one more."""


class GoTool(NamedTuple):
    """A program that Go builds. `package`: the package of its `main`."""

    name: str
    package: str
    version: str

    @property
    def path(self) -> Path:
        """The place of the program in the user's cache, whether or not it is there."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "txnscope" / "tools" / f"{self.name}-{self.version}"


HELM: Final = GoTool("helm", "helm.sh/helm/v3/cmd/helm", "v3.22.0")
KUBE_SCORE: Final = GoTool("kube-score", "github.com/zegl/kube-score/cmd/kube-score", "v1.20.0")
TOOLS: Final = (HELM, KUBE_SCORE)


class ToolMissing(Exception):
    """The tool cannot be had on this machine. The message is one line."""


def built(tool: GoTool) -> Path:
    """Returns the path of the tool; builds it if it is not in the cache. Of several processes one builds, and the
    others wait. Raises ToolMissing if there is no Go, or if the build fails."""
    if tool.path.exists():
        return tool.path
    if shutil.which("go") is None:
        raise ToolMissing(f"{tool.name} is built by Go (1.21 or newer), and there is no `go` on PATH")
    tool.path.parent.mkdir(parents=True, exist_ok=True)
    with (tool.path.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tool.path.exists():
            _build(tool)
    return tool.path


def _build(tool: GoTool) -> None:
    sys.stderr.write(f"building {tool.name} {tool.version} (once, some minutes) …\n")
    with tempfile.TemporaryDirectory(prefix="build-", dir=tool.path.parent) as scratch:
        command = ["go", "install", "-trimpath", "-ldflags=-s -w", f"{tool.package}@{tool.version}"]
        environment = os.environ | {"GOBIN": scratch}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ToolMissing(f"{tool.name} was not built within {BUILD_S} s") from error
        if done.returncode:
            raise ToolMissing(f"{tool.name} could not be built: {done.stderr.strip().splitlines()[-1][:300]}")
        (Path(scratch) / tool.name).rename(tool.path)


def main() -> None:
    """Builds all tools. Says what cannot be built and why: the tests of the chart that need it are then skipped."""
    for tool in TOOLS:
        try:
            built(tool)
        except ToolMissing as error:
            sys.stderr.write(f"{error}; tests that need {tool.name} are skipped\n")


if __name__ == "__main__":
    main()
