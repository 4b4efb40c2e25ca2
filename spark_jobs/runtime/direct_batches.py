"""Passes a batch from a planner to the driver as a file, without Spark, if nothing has to be read for the batch
(docs/adr/0015). Also makes the folder for files that live as long as the process.

A micro-batch costs the JVM some 80 ms of CPU, however little it contains, and a quiet cluster mostly reports once a
second that nothing is new.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

_PREFIX: Final = "txnscope-spark-"
_LOCK: Final = "lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Removes the folders of processes that were killed. Then yields a new folder, and removes it at the end of the
    block."""
    _remove_abandoned()
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name,
        (Path(name) / _LOCK).open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Path(name)


def _remove_abandoned() -> None:
    """Removes every folder whose lock no process holds: the process of such a folder is gone. A folder without a lock
    file was made a moment ago, and stays."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), (folder / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


THROUGH_SPARK_EVERY_S: Final = 10.0
"""Longest time (s) between two micro-batches of a source. A source without news still makes a micro-batch this often,
because a micro-batch proves that Spark works."""


class DirectBatches:
    """A queue for at most one batch, from a query's planner to its sink. The batch is in a file in `folder`."""

    def __init__(self, folder: str) -> None:
        """`folder`: an existing folder that only this query uses."""
        self._batch = Path(folder) / "batch"

    def may_take(self, through_spark_at: float) -> bool:
        """Returns True if the next batch need not go through Spark: the driver has taken the previous direct batch, and
        the last micro-batch was less than THROUGH_SPARK_EVERY_S ago. `through_spark_at`: the time of that micro-batch
        (monotonic, s)."""
        return time.monotonic() - through_spark_at < THROUGH_SPARK_EVERY_S and not self._batch.exists()

    def put(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Adds a batch. Call this method in the planner only, and only if `may_take` returns True."""
        table = pa.Table.from_batches(list(rows))
        half_done = self._batch.with_suffix(".new")
        with half_done.open("wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        half_done.replace(self._batch)

    def take(self) -> pa.Table | None:
        """Removes the batch and returns it; None if there is none. Call this method in the driver only."""
        try:
            with self._batch.open("rb") as file, pa.ipc.open_stream(file) as stream:
                table = stream.read_all()
        except FileNotFoundError:
            return None
        self._batch.unlink()
        return table
