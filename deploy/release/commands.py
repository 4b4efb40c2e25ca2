"""Runs the programs of a release. Also defines the error with which a release fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

_LIMIT_S: Final = 3600.0
_ENDS_WITH: Final = 2_000


class ReleaseError(Exception):
    """The release cannot be made. The message says why. If a program failed, the message has the end of its output."""


def run(
    command: Sequence[str], folder: Path, variables: Mapping[str, str] = MappingProxyType({}), umask: int = -1
) -> str:
    """Runs a program and returns its output. Raises ReleaseError if the program cannot be started, runs for longer than
    _LIMIT_S, or fails. After a failure, the message contains the end of the output."""
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
            umask=umask,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReleaseError(f"{command[0]}: {error}") from error
    if ended.returncode != 0:
        said = (ended.stdout + ended.stderr).strip()[-_ENDS_WITH:]
        raise ReleaseError(f"{' '.join(command)} failed:\n{said}")
    return ended.stdout


def git(folder: Path, *words: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    return run(("git", "-C", str(folder), *words), folder, variables).strip()
