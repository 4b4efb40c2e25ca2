"""Builds both container images with podman. If no registry can be reached, makes the base image from Debian's packages,
without the files that Debian's slim images leave out.

`python -m deploy.compose.images` builds the images of a release (`make release-image`). The environment variables
VERSION and REVISION name the version and the commit, DIST the folder for the lists of the images' content. Nothing is
pushed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from deploy.compose.sbom import FILE

ROOT: Final = Path(__file__).parents[2]
CONTAINERFILE: Final = Path(__file__).with_name("Containerfile")
TARGETS: Final = ("service", "job")
BASE: Final = "docker.io/library/python:3.13-slim-trixie"
LIMITS: Final = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
"""Options of podman for a container's limits. The values are low, because podman's defaults exceed what some machines
allow."""

_PIP_FILES: Final = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""Files of this machine that a container needs to reach its package index."""
_BUILD_S: Final = 1800.0
_SLIM: Final = ("usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*", "usr/share/lintian/*")
_INCLUDED: Final = ("python3", "python3-venv", "ca-certificates", "netbase", "tzdata")
_NAMED_PYTHON: Final = '--customize-hook=chroot "$1" python3 -m venv /usr/local'
"""Option of mmdebstrap that installs `python` and `pip` where the Python image has them."""


class PodmanError(Exception):
    """A command of podman failed. The message is the command, and the end of its output."""


class Built(NamedTuple):
    """An image. `size`: bytes, uncompressed, as podman reports them; `seconds`: duration of its build, which is short
    if an earlier build left layers."""

    name: str
    size: int
    seconds: float
    config: Mapping[str, Any]


def podman(*words: str, timeout_s: float = 300.0, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs podman with runc. With `check`, raises PodmanError if podman fails. Raises subprocess.TimeoutExpired after
    `timeout_s`."""
    command = ["podman", "--runtime", "runc", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if check and ended.returncode != 0:
        raise PodmanError(f"{' '.join(command)}: {ended.stdout[-2000:]}{ended.stderr[-4000:]}")
    return ended


def pip_files() -> list[str]:
    """Returns the arguments of podman that mount this machine's settings for its package index into a container."""
    return [word for path in _PIP_FILES if Path(path).exists() for word in ("--volume", f"{path}:{path}:ro")]


def build(target: str, tag: str, revision: str, source: str = "") -> Built:
    """Builds a stage of the Containerfile from the working tree. `source`: the address of the repository."""
    _provide_base()
    arguments = {"PYTHON": BASE, "REVISION": revision, "SOURCE": source}
    name = f"localhost/txnscope-{target}:{tag}"
    begun_s = time.monotonic()
    podman(
        *("build", "--isolation", "chroot", "--format", "docker", "--network", "host", *pip_files()),
        *(word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")),
        *("--file", str(CONTAINERFILE), "--target", target, "--tag", name, str(ROOT)),
        timeout_s=_BUILD_S,
    )
    seconds = time.monotonic() - begun_s
    (inspected,) = json.loads(podman("image", "inspect", name).stdout)
    return Built(name, inspected["Size"], seconds, inspected["Config"] | {"Labels": inspected["Labels"]})


def content(image: str) -> str:
    """Returns the list of an image's content (CycloneDX)."""
    command = ("--entrypoint", "cat", image, f"/opt/txnscope/{FILE}")
    return podman("run", "--rm", "--network", "none", *LIMITS, *command).stdout


def _provide_base() -> None:
    if podman("image", "exists", BASE, check=False).returncode == 0:
        return
    if podman("pull", "--quiet", BASE, check=False).returncode == 0:
        return
    make_system(BASE, _INCLUDED, _NAMED_PYTHON)


def make_system(image: str, packages: Sequence[str], *options: str) -> None:
    """Makes an image of Debian's smallest system with `packages`, without a registry. `options`: further options of
    mmdebstrap."""
    with tempfile.TemporaryDirectory() as folder:
        archive = f"{folder}/base.tar"
        excluded = [f"--dpkgopt=path-exclude=/{pattern}" for pattern in _SLIM]
        command = ["mmdebstrap", "--variant=minbase", *excluded, "--dpkgopt=path-include=/usr/share/doc/*/copyright"]
        command += [f"--include={','.join(packages)}", *options]
        command += ["trixie", archive, "http://deb.debian.org/debian"]
        subprocess.run(command, check=True, timeout=_BUILD_S)
        path = "PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
        podman("import", "--change", f"ENV {path}", archive, image, timeout_s=_BUILD_S)


def main() -> int:
    version, revision, dist = (os.environ[name] for name in ("VERSION", "REVISION", "DIST"))
    try:
        for target in TARGETS:
            built = build(target, version, revision)
            sys.stdout.write(f"{built.name}: {built.size / 1e6:.0f} MB\n")
            Path(dist, f"txnscope-{target}-{version}.cdx.json").write_text(content(built.name), "utf-8")
    except (PodmanError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"the images cannot be built: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
