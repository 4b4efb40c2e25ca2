"""A folder for files that live as long as the process: Spark's own files, checkpoints, windows, pulses."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PREFIX: Final = "txnscope-spark-"
_LOCK: Final = "lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yields a new folder, which is removed at the end. At the start it removes the folders of processes that were
    killed."""
    _remove_abandoned()
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name,
        (Path(name) / _LOCK).open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Path(name)


def _remove_abandoned() -> None:
    """Removes every folder with a lock that no process holds: its process is gone. A folder without a lock was made a
    moment ago, and stays."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), (folder / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
