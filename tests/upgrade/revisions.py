"""Takes revisions of the project out of its repository, installs them, and runs their commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from deploy.demo.child_process import ChildProcess
from tests.helpers.next_version import add_made_up_revision
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S


class Revision(NamedTuple):
    """A revision of the project in a folder of its own. `python`: the interpreter of an environment with the packages
    of the revision."""

    name: str
    folder: Path
    python: str

    def command(self, *arguments: str) -> list[str]:
        return [self.python, "-m", "service.cli", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("TXNSCOPE_")}
        return ours | {"PYTHONPATH": str(self.folder)}


class Running:
    """A command of a revision that runs until `stop`, or until this process ends. The command runs in the folder of
    `log`, and appends its output to `log`."""

    def __init__(self, revision: Revision, log: Path, *arguments: str) -> None:
        self.revision, self.log = revision, log
        command = ["env", f"--chdir={log.parent}", *revision.command(*arguments)]
        with log.open("ab") as out:
            self._process = ChildProcess(command, out, revision.environment)

    def check(self) -> None:
        """Raises AssertionError if the process has ended by itself."""
        code = self._process.poll()
        assert code is None, f"{self.revision.name} ended with {code}; its log ends:\n{self.log.read_text()[-3000:]}"

    def stop(self) -> None:
        """Sends SIGTERM, as systemd and Kubernetes do. If the command does not end, sends SIGKILL."""
        self._process.stop(LIMIT_S)


def newest_tag() -> str | None:
    """Returns the nearest tag `v…` of the present commit or of a commit before it, or None if there is no such tag
    yet."""
    try:
        return _git("describe", "--tags", "--abbrev=0", "--match", "v*").decode().strip()
    except subprocess.CalledProcessError:
        return None


def present(folder: Path, *, adds: bool) -> Revision:
    """Returns a copy of this checkout, with the packages of this environment. With `adds`, the copy has one more,
    made-up revision of the store, which adds a table, an index, and columns (`add_made_up_revision`)."""
    for name in ("service", "spark_jobs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    if adds:
        add_made_up_revision(folder / "service" / "store" / "migrations", only_adds=True)
    return Revision("this checkout" + (" with a made-up revision of the store" if adds else ""), folder, sys.executable)


def installed(revision: str, folder: Path) -> Revision:
    """Takes a revision out of the repository, installs the packages of its lock file into an environment of its own,
    and returns the revision."""
    folder.mkdir(parents=True)
    name = _git("rev-parse", "--short=12", f"{revision}^{{commit}}").decode().strip()
    subprocess.run(["tar", "--extract", "--directory", str(folder)], input=_git("archive", name), check=True)
    environment = folder / ".venv"
    uv = str(Path(sys.executable).with_name("uv"))
    python = str(environment / "bin" / "python")
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)])
    lock = str(folder / "requirements.lock")
    patient = {"UV_HTTP_TIMEOUT": "180"}
    _run([uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "--requirement", lock], **patient)
    found = Revision(name, folder, python)
    subprocess.run([python, "-m", "spark_jobs.runtime.rehearsal"], cwd=folder, env=found.environment, check=False)
    return found


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def _run(command: Sequence[str], **environment: str) -> None:
    subprocess.run(command, env=os.environ | environment, check=True)
