"""A Spark cluster that exists already: our code for its executors, and whether they are there and at work.

Spark itself sees to lost executors: it starts others, and tries their tasks again.
"""

from __future__ import annotations

import logging
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import service
import spark_jobs

log = logging.getLogger("txnscope.ingest")

TASKS_S: Final = 300.0
"""Longest time in which running tasks count as progress although none of them ends."""

_MISSING_S: Final = 15.0
"""Time without an executor after which that is logged."""

_SETTLED_S: Final = 1.0
"""Time without another executor after which no more are expected for now."""

_PACKAGES: Final = (service, spark_jobs)
_NOT_IN_EXECUTORS: Final = ("api", "cli", "web")
"""Folders of packages that no task imports."""


class SessionEnded(Exception):
    """The cluster has ended the application. The message is one line."""


def describe_end(master: str | None) -> str:
    return (
        f"the Spark cluster {master} has ended the application: its executors failed too often (their logs say why),"
        " or somebody ended it there"
    )


def ship_code(session: SparkSession, folder: Path) -> None:
    """Makes this version's modules importable in executors, whatever is installed there. `folder`: for the archive."""
    archive = folder / "txnscope.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as modules:
        for file, name in _modules():
            modules.write(file, name)
    session.sparkContext.addPyFile(str(archive))


def _modules() -> Iterator[tuple[Path, str]]:
    for package in _PACKAGES:
        root = Path(package.__path__[0])
        for file in root.rglob("*.py"):
            inside = file.relative_to(root)
            if inside.parts[0] not in _NOT_IN_EXECUTORS:
                yield file, str(Path(package.__name__) / inside)


class Executors:
    """The executors of a session."""

    def __init__(self, session: SparkSession, now_s: Callable[[], float] = time.monotonic) -> None:
        self._context, self._now_s = session.sparkContext, now_s
        self._here_at_s = self._changed_at_s = now_s()
        self._has_logged = False
        self._ended: tuple[int, ...] = ()

    @property
    def cores(self) -> int:
        """Returns the number of tasks that the cluster runs at once."""
        return int(self._context.defaultParallelism)

    def wait(self, ending: threading.Event, step: Callable[[], None]) -> None:
        """Waits for executors until `ending` is set: first for one, then for those that come with it. Raises
        SessionEnded."""
        before = 0
        while not (before and self._count() == before) and not ending.is_set():
            before = self._count()
            self.check()
            step()
            ending.wait(_SETTLED_S)

    def check(self) -> bool:
        """Returns True if the executors make progress, or if none is there to make any. Logs that, once. Raises
        SessionEnded."""
        if self._context._jsc.sc().isStopped():
            raise SessionEnded(describe_end(self._context.master))
        now_s = self._now_s()
        if self._count():
            if self._has_logged:
                log.info("executors of %s have registered: %d tasks at once", self._context.master, self.cores)
            self._here_at_s, self._has_logged = now_s, False
            return self._do_tasks_end(now_s)
        if now_s - self._here_at_s > _MISSING_S and not self._has_logged:
            self._has_logged = True
            log.warning(
                "no executor of %s has registered for %.0f s: has the cluster %s of memory and a core that are free,"
                " and do its machines reach this one (spark.driver.host)?",
                self._context.master,
                now_s - self._here_at_s,
                self._context.getConf().get("spark.executor.memory", "1g"),
            )
        return True

    def _count(self) -> int:
        return len(self._context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # one of them is this driver

    def _do_tasks_end(self, now_s: float) -> bool:
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in sorted(tracker.getActiveStageIds())]
        ended = tuple(number for stage in stages if stage for number in (stage.stageId, stage.numCompletedTasks))
        if ended != self._ended:
            self._ended, self._changed_at_s = ended, now_s
        return bool(stages) and now_s - self._changed_at_s < TASKS_S
