"""The version of txnscope, and the revision of the source that it was built from."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Any, Final

import service

UNKNOWN: Final = "unknown"
WRITTEN: Final = "revision.txt"
"""Name of the file in the package `service` into which a build writes the revision of its source."""

_PACKAGE: Final = Path(service.__path__[0])
_REVISION: Final = re.compile(r"[0-9a-f]{40}")
_SHOWN: Final = 12
_GIT_LIMIT_S: Final = 10.0
_GIT_PLACES: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


class PrintVersion(argparse.Action):
    """Prints version and revision, and ends the process. Looks them up when the flag is given, not before, because git
    is slow."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        _values: str | Sequence[Any] | None,
        _option: str | None = None,
    ) -> None:
        print(f"txnscope {version()}, revision {revision()}")
        parser.exit()


def version() -> str:
    """Returns the version of the installed distribution; `0+checkout` for a checkout that was never installed."""
    try:
        return importlib.metadata.version("txnscope")
    except PackageNotFoundError:
        return "0+checkout"


def revision(package: Path = _PACKAGE, find: Callable[[str], Distribution] = importlib.metadata.distribution) -> str:
    """Returns the revision of the source: the first 12 digits of its commit, with `, modified` for a checkout whose
    files differ from the commit; UNKNOWN if it cannot be found out. `package`: the folder of the package `service`;
    `find`: returns the metadata of a distribution.

    In a checkout, git reports the revision. In an installed package, it is in a file that the build wrote, or in the
    record that pip makes when it installs from a repository.
    """
    if (package.parent / "pyproject.toml").exists():
        found = _of_checkout(package.parent) or _written(package)
    else:
        found = _written(package) or _recorded(find)
    return found or UNKNOWN


def _of_checkout(root: Path) -> str | None:
    """Returns the revision that git reports of a checkout; None for an unpacked archive, or if git is missing or
    refuses."""
    if not (root / ".git").exists():  # git would go on to a repository above
        return None
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changed is None:
        return None
    shown = _shown(commit)
    return f"{shown}, modified" if shown and changed.strip() else shown


def _git(root: Path, *words: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(root), *words]
    # in a hook of git, these name another repository
    environment = {name: value for name, value in os.environ.items() if name not in _GIT_PLACES}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_GIT_LIMIT_S, check=True, env=environment
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _written(package: Path) -> str | None:
    try:
        return _shown((package / WRITTEN).read_text("ascii"))
    except (OSError, UnicodeDecodeError):
        return None


def _recorded(find: Callable[[str], Distribution]) -> str | None:
    """Returns the commit that pip installed, from `direct_url.json` (PEP 610)."""
    try:
        recorded = json.loads(find("txnscope").read_text("direct_url.json") or "{}")
        return _shown(str(recorded["vcs_info"]["commit_id"]))
    except (PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return None


def _shown(commit: str) -> str | None:
    """Returns the beginning of a commit's id; None for a text that is no such id."""
    commit = commit.strip()
    return commit[:_SHOWN] if _REVISION.fullmatch(commit) else None
