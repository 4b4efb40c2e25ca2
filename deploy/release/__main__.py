"""`VERSION=1.0.0 python -m deploy.release`: releases the present commit. Nothing is pushed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from deploy.release.commands import ReleaseError
from deploy.release.process import GENERATED, Project, release, try_wheel


def main() -> int:
    version = os.environ.get("VERSION", "")
    project = Project(Path(__file__).parents[2], GENERATED, try_wheel)
    try:
        if not version:
            raise ReleaseError("VERSION is missing: VERSION=1.0.0rc1 make release")
        released = release(project, version, _say)
    except ReleaseError as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    _say(f"{released.tag} is commit {released.commit[:12]}; its files are in {released.folder}")
    sys.stdout.write((released.folder / "SHA256SUMS").read_text("utf-8"))
    _say(f"nothing is pushed; to push the release, run: git push --atomic origin HEAD {released.tag}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"release: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
