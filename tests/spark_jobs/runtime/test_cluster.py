"""Tests that the executors of a Spark cluster receive our modules. Also tests that the driver notices missing
executors, progress of tasks, and the end of the session."""

from __future__ import annotations

import logging
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from spark_jobs.runtime.cluster import TASKS_S, Executors, SessionEnded, Tasks, ship_code

MASTER = "spark://m:7077"


QUERY = "run-of-the-query"


class Cluster:
    """Stands in for a Spark session with `executors` executors, at the time `now_s`. `jobs` maps each job to its query
    and the number of completed tasks of its only stage."""

    def __init__(self) -> None:
        self.executors, self.jobs, self.is_stopped, self.now_s = 0, dict[int, tuple[str, int]](), False, 0.0
        tracker = Mock()
        tracker.getActiveJobsIds = lambda: list(self.jobs)
        tracker.getJobIdsForGroup = lambda group: [
            99,
            *(job for job, (query, _) in self.jobs.items() if query == group),
        ]
        tracker.getJobInfo = lambda job: SimpleNamespace(stageIds=[job])
        tracker.getStageInfo = lambda stage: SimpleNamespace(stageId=stage, numCompletedTasks=self.jobs[stage][1])
        java = Mock()
        java.isStopped = lambda: self.is_stopped
        java.statusTracker().getExecutorInfos = lambda: ["driver", *range(self.executors)]
        context: Any = Mock(master=MASTER)
        context.statusTracker.return_value, context._jsc.sc.return_value = tracker, java
        type(context).defaultParallelism = property(lambda _: max(2, self.executors))
        session = Mock(sparkContext=context)
        self.seen = Executors(session, lambda: self.now_s)
        self.tasks = Tasks(tracker, QUERY, lambda: self.now_s)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_executors_get_the_modules_that_tasks_import_and_no_pages(tmp_path: Path) -> None:
    session = Mock()
    ship_code(session, tmp_path)
    (archive,) = session.sparkContext.addPyFile.call_args.args
    names = set(zipfile.ZipFile(archive).namelist())
    assert {"service/__init__.py", "service/kafka/client.py", "spark_jobs/source/transaction_log.py"} <= names
    assert not [name for name in names if name.startswith(("service/web", "service/cli", "service/api"))]


def test_the_lack_of_executors_is_logged_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "txnscope.ingest"):
        for cluster.now_s in range(60):
            assert not cluster.seen.are_there()
        cluster.executors = 3
        assert cluster.seen.are_there()
    missing, registered = caplog.messages
    assert missing.startswith(f"no executor of {MASTER} has registered for 16 s")
    assert registered == f"executors of {MASTER} have registered: 3 tasks at once"


def test_finished_tasks_are_progress_and_stalled_tasks_are_not(cluster: Cluster) -> None:
    assert not cluster.tasks.are_at_work(), "no task runs"
    cluster.jobs = {7: (QUERY, 0)}
    assert cluster.tasks.are_at_work()
    cluster.now_s += TASKS_S - 1
    assert cluster.tasks.are_at_work()
    cluster.now_s += 1
    assert not cluster.tasks.are_at_work()
    cluster.jobs = {7: (QUERY, 0), 8: ("another", 5)}
    assert not cluster.tasks.are_at_work(), "tasks of another query are no progress of this query"
    cluster.jobs = {7: (QUERY, 1)}
    assert cluster.tasks.are_at_work()


def test_a_query_waits_until_no_further_executors_come(cluster: Cluster) -> None:
    ending = Mock(spec=threading.Event)
    ending.is_set.return_value = False
    coming = iter([0, 0, 1, 3, 4])

    def pass_time(seconds: float) -> None:
        cluster.now_s += seconds
        cluster.executors = next(coming, 4)

    ending.wait.side_effect = pass_time
    step = Mock()
    cluster.seen.wait(ending, step)
    assert cluster.seen.cores == 4
    assert step.call_count == ending.wait.call_count == 6


def test_a_session_that_the_cluster_has_ended_is_named(cluster: Cluster) -> None:
    cluster.is_stopped = True
    with pytest.raises(SessionEnded, match=f"^the Spark cluster {MASTER} has ended the application: "):
        cluster.seen.are_there()
