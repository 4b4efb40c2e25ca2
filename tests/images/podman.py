"""Builds images and runs containers with podman. Where no registry is reached, the base image is made of Debian's
packages, with the files left out that Debian's own slim images leave out."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.deploy.compose_files import COMPOSE
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until

BASE: Final = "docker.io/library/python:3.13-slim-trixie"
_PIP_FILES: Final = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""Files of this machine that a build needs to reach its package index."""
_BUILD_S: Final = 1800.0
_UNPRIVILEGED: Final = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
LIMITS: Final = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
"""Limits that a machine allows whose own are low; podman would ask for more."""
_SLIM: Final = ("usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*", "usr/share/lintian/*")
_INCLUDED: Final = "python3,python3-venv,ca-certificates,netbase,tzdata"


class Built(NamedTuple):
    """An image. `size`: bytes, uncompressed, as podman reports them; `seconds`: time of its build, which is short if
    layers are there from an earlier one."""

    name: str
    size: int
    seconds: float
    config: Mapping[str, Any]


def podman(*words: str, timeout_s: float = 300.0, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs podman with runc. With `check`, raises AssertionError that shows what podman printed."""
    command = ["podman", "--runtime", "runc", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert not check or ended.returncode == 0, f"{' '.join(command)}: {ended.stdout[-2000:]}{ended.stderr[-4000:]}"
    return ended


def build(target: str, revision: str, source: str) -> Built:
    """Builds a stage of deploy/compose/Containerfile from the working tree. `source`: the address of the repository."""
    _provide_base()
    mounted = [word for path in _PIP_FILES if Path(path).exists() for word in ("--volume", f"{path}:{path}:ro")]
    arguments = {"PYTHON": BASE, "REVISION": revision, "SOURCE": source}
    name = f"localhost/txnscope-{target}"
    begun_s = time.monotonic()
    podman(
        *("build", "--isolation", "chroot", "--format", "docker", "--network", "host", *mounted),
        *(word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")),
        *("--file", str(COMPOSE / "Containerfile"), "--target", target, "--tag", name, str(ROOT)),
        timeout_s=_BUILD_S,
    )
    seconds = time.monotonic() - begun_s
    (inspected,) = json.loads(podman("image", "inspect", name).stdout)
    return Built(name, inspected["Size"], seconds, inspected["Config"] | {"Labels": inspected["Labels"]})


def _provide_base() -> None:
    if podman("image", "exists", BASE, check=False).returncode == 0:
        return
    if podman("pull", "--quiet", BASE, check=False).returncode == 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = f"{folder}/base.tar"
        excluded = [f"--dpkgopt=path-exclude=/{pattern}" for pattern in _SLIM]
        command = ["mmdebstrap", "--variant=minbase", *excluded, "--dpkgopt=path-include=/usr/share/doc/*/copyright"]
        command += [f"--include={_INCLUDED}", '--customize-hook=chroot "$1" python3 -m venv /usr/local']
        command += ["trixie", archive, "http://deb.debian.org/debian"]
        subprocess.run(command, check=True, timeout=_BUILD_S)
        path = "PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
        podman("import", "--change", f"ENV {path}", archive, BASE, timeout_s=_BUILD_S)


class Container:
    """A container with the privileges of compose.yml: no capability, a root that is read-only, and memory at /tmp."""

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
        """Runs a program in the container, and returns what it prints. Raises AssertionError if it fails."""
        return podman("exec", self.id, *words).stdout

    def python(self, script: str) -> str:
        return self.run("python", "-c", script)

    def is_healthy(self) -> bool:
        """Runs the health check of the image once."""
        return podman("healthcheck", "run", self.id, check=False).returncode == 0

    def wait_until_healthy(self) -> None:
        wait_until(self.is_healthy, bool, "the health check of the container to pass")

    def stop(self) -> int:
        """Stops the container as orchestrators do, and returns the exit code of its command."""
        podman("stop", "--time", "60", self.id)
        return int(podman("inspect", "--format", "{{.State.ExitCode}}", self.id).stdout)
