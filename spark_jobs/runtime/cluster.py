"""Ships our code to the executors of an existing Spark cluster, and checks that executors are registered and work.

Spark itself replaces lost executors and tries their tasks again.
"""

from __future__ import annotations

import logging
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark import StatusTracker
from pyspark.sql import SparkSession

import service
import spark_jobs

log = logging.getLogger("txnscope.ingest")

TASKS_S: Final = 300.0
"""Longest time (s) for which running tasks count as progress, although none of them ends."""

_MISSING_S: Final = 15.0
"""If no executor has been registered for this time (s), a warning is logged."""

_SETTLED_S: Final = 1.0
"""If no new executor has registered for this time (s), `wait` returns."""

_NOT_IN_EXECUTORS: Final = ("api", "cli", "web")
"""Packages of `service` that no task imports."""


class SessionEnded(Exception):
    """The cluster has ended the application. The message is one line."""


def describe_end(master: str | None) -> str:
    """Returns one line for people: why the cluster may have ended the session."""
    return (
        f"the Spark cluster {master} has ended the application: its executors failed too often (their logs say why),"
        " or somebody ended the application"
    )


def ship_code(session: SparkSession, folder: Path) -> None:
    """Makes this version's modules importable in executors, whatever is installed there. `folder`: the folder in which
    the archive of the modules is written."""
    archive = folder / "txnscope.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as modules:
        for package in (service, spark_jobs):
            root = Path(package.__path__[0])
            for file in root.rglob("*.py"):
                inside = file.relative_to(root)
                if inside.parts[0] not in _NOT_IN_EXECUTORS:
                    modules.write(file, Path(package.__name__) / inside)
    session.sparkContext.addPyFile(str(archive))


class Executors:
    """The executors of a session. Can be used by several threads; but two threads may log the same line."""

    def __init__(self, session: SparkSession, now_s: Callable[[], float] = time.monotonic) -> None:
        self._context, self._now_s = session.sparkContext, now_s
        self._here_at_s = now_s()
        self._has_logged = False

    @property
    def cores(self) -> int:
        """Returns the number of tasks that the cluster runs at once."""
        return int(self._context.defaultParallelism)

    def wait(self, ending: threading.Event, step: Callable[[], None]) -> None:
        """Waits for the first executor, and then until no further executor has registered for _SETTLED_S. Returns early
        if `ending` is set. Raises SessionEnded if the session has ended."""
        before = 0
        while not (before and self._count() == before) and not ending.is_set():
            before = self._count()
            self.are_there()
            step()
            ending.wait(_SETTLED_S)

    def are_there(self) -> bool:
        """Returns whether an executor is registered. If there has been none for more than _MISSING_S, logs this once.
        Raises SessionEnded if the session has ended."""
        if self._context._jsc.sc().isStopped():
            raise SessionEnded(describe_end(self._context.master))
        now_s = self._now_s()
        if self._count():
            if self._has_logged:
                log.info("executors of %s have registered: %d tasks at once", self._context.master, self.cores)
            self._here_at_s, self._has_logged = now_s, False
            return True
        if now_s - self._here_at_s > _MISSING_S and not self._has_logged:
            self._has_logged = True
            log.warning(
                "no executor of %s has registered for %.0f s: check that the cluster has %s of memory and a core free,"
                " and that its machines can reach this one (spark.driver.host)",
                self._context.master,
                now_s - self._here_at_s,
                self._context.getConf().get("spark.executor.memory", "1g"),
            )
        return False

    def watch(self, run: str) -> Callable[[], bool]:
        """Returns a function that reports whether a query makes progress: its tasks are at work, or the query waits
        because no executor is registered. The function raises SessionEnded if the session has ended. `run`: the id of
        the query's run."""
        tasks = Tasks(self._context.statusTracker(), run)
        return lambda: not self.are_there() or tasks.are_at_work()

    def _count(self) -> int:
        return len(self._context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # one of them is this driver


class Tasks:
    """The tasks of one query. `group`: the id of the query's run; Spark gives this id to all jobs of the query."""

    def __init__(self, tracker: StatusTracker, group: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._tracker, self._group, self._now_s = tracker, group, now_s
        self._ended: list[tuple[int, int]] = []
        self._changed_at_s = now_s()

    def are_at_work(self) -> bool:
        """Returns True if the query has active jobs, and a task has ended or a stage has been added within TASKS_S."""
        jobs = set(self._tracker.getActiveJobsIds()) & set(self._tracker.getJobIdsForGroup(self._group))
        found = (self._tracker.getJobInfo(job) for job in jobs)
        stages = [self._tracker.getStageInfo(stage) for job in found if job for stage in job.stageIds]
        ended = sorted((stage.stageId, stage.numCompletedTasks) for stage in stages if stage)
        if ended != self._ended:
            self._ended, self._changed_at_s = ended, self._now_s()
        return bool(ended) and self._now_s() - self._changed_at_s < TASKS_S
