"""Runs containers with podman, in the way compose.yml runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.compose.images import LIMITS, podman
from tests.helpers.waiting import wait_until

_UNPRIVILEGED: Final = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


class Container:
    """A container with the privileges of compose.yml: no capability, a read-only root file system, and a file system in
    memory at /tmp."""

    def __init__(self, image: str, arguments: Sequence[str], environment: Mapping[str, str], *, mount: Path) -> None:
        """`mount`: a folder of this machine, which the container sees under the same path, read-only."""
        variables = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        self.id = podman(
            *("run", "--detach", "--init", "--network", "host", *_UNPRIVILEGED, *variables),
            *(*LIMITS, "--tmpfs", "/tmp:exec,mode=1777,size=1g", "--volume", f"{mount}:{mount}:ro"),
            *(image, *arguments),
        ).stdout.strip()

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        podman("rm", "--force", "--time", "0", self.id, check=False)

    @property
    def log(self) -> str:
        ended = podman("logs", self.id)
        return ended.stdout + ended.stderr

    def run(self, *words: str) -> str:
        """Runs a program in the container, and returns what the program writes to stdout. Raises PodmanError if the
        program fails."""
        return podman("exec", self.id, *words).stdout

    def python(self, script: str) -> str:
        return self.run("python", "-c", script)

    def is_healthy(self) -> bool:
        """Runs the health check of the image once. Returns whether the check passed."""
        return podman("healthcheck", "run", self.id, check=False).returncode == 0

    def wait_until_healthy(self) -> None:
        wait_until(self.is_healthy, bool, "the health check of the container to pass")

    def stop(self) -> int:
        """Stops the container as orchestrators do, and returns the exit code of its command."""
        podman("stop", "--time", "60", self.id)
        return int(podman("inspect", "--format", "{{.State.ExitCode}}", self.id).stdout)
