"""Tests of several jobs that run side by side: a failed job restarts alone, and a lost lease ends all jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from service.kafka.errors import KafkaUnavailable
from service.store.errors import LeaseLost, StoreUnavailable
from service.store.lease import Lease
from spark_jobs.runtime import job_runner
from spark_jobs.runtime.job_runner import TooManyFailures, run_jobs
from spark_jobs.runtime.liveness import SOURCE_S, START_S, Liveness, Part
from spark_jobs.runtime.queries import StillStoring
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until_equal

LEASE = Lease(1, "me", 1)


class Job:
    """A job that runs until it is ended. At each start, calls `work` with the number of the start."""

    def __init__(self, name: str, work: Callable[[int], None] = lambda life: None) -> None:
        self.name, self._work = name, work
        self.lives = 0
        self.is_running = False

    def run(self, lease: Lease, ending: threading.Event, part: Part) -> None:
        self.lives += 1
        self.is_running = True
        try:
            self._work(self.lives)
            assert ending.wait(LIMIT_S)
        finally:
            self.is_running = False


class Starts(Liveness):
    """Records the time limit for the first step of each part."""

    def __init__(self) -> None:
        super().__init__(list)
        self.start_s: dict[str, float] = {}

    def part(self, name: str, limit_s: float, *, start_s: float = START_S, holds_lease: bool = False) -> Any:
        self.start_s[name] = start_s
        return super().part(name, limit_s, start_s=start_s, holds_lease=holds_lease)


def nobody() -> Liveness:
    return Liveness(list)


def renewed() -> None:
    """Stands in for the renewal of a lease that always holds."""


def test_a_failing_job_starts_again_and_the_other_continues() -> None:
    stopping = threading.Event()

    def fails_once(life: int) -> None:
        if life == 1:
            raise RuntimeError("no permission")

    failing, steady = Job("partitions", fails_once), Job("transaction_state")
    running = threading.Thread(target=run_jobs, args=([failing, steady], LEASE, nobody(), renewed, stopping))
    running.start()
    wait_until_equal(lambda: failing.lives, 2, "the number of starts of the failing job")
    stopping.set()
    running.join(LIMIT_S)
    assert not running.is_alive()
    assert (failing.lives, steady.lives) == (2, 1)
    assert not failing.is_running
    assert not steady.is_running


def test_a_job_has_a_bounded_time_for_its_first_step() -> None:
    stopping, liveness = threading.Event(), Starts()
    running = threading.Thread(target=run_jobs, args=([Job("partitions")], LEASE, liveness, renewed, stopping))
    running.start()
    wait_until_equal(lambda: list(liveness.start_s), ["partitions"], "the part")
    stopping.set()
    running.join(LIMIT_S)
    restart_s = 15
    assert SOURCE_S < liveness.start_s["partitions"] <= 60 - restart_s


@pytest.mark.parametrize("why", [LeaseLost("another writes"), StillStoring("not finished")])
def test_a_job_that_may_no_longer_write_ends_all_jobs(why: Exception) -> None:
    def lost(life: int) -> None:
        raise why

    losing, other = Job("partitions", lost), Job("transaction_state")
    assert run_jobs([losing, other], LEASE, nobody(), renewed, threading.Event()) is why
    assert losing.lives == 1
    assert not other.is_running


def test_a_lease_that_cannot_be_renewed_ends_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "RENEW_EVERY_S", 0.01)
    lost = LeaseLost("another writes")

    def renew() -> None:
        raise lost

    job = Job("partitions")
    assert run_jobs([job], LEASE, nobody(), renew, threading.Event()) is lost
    assert not job.is_running


def test_stopping_is_no_failure() -> None:
    stopping = threading.Event()
    stopping.set()
    assert run_jobs([Job("partitions")], LEASE, nobody(), renewed, stopping) is None


def test_a_job_that_fails_again_and_again_ends_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a job fails again and again, the Spark session is most likely broken, and another query in this session would
    fail, too."""
    monkeypatch.setattr(job_runner, "MAX_PAUSE_S", 0.01)
    monkeypatch.setattr(job_runner, "FIRST_PAUSE_S", 0.01)

    def fails(life: int) -> None:
        raise RuntimeError("the session is broken")

    failing, other = Job("partitions", fails), Job("transaction_state")
    with pytest.raises(TooManyFailures, match="partitions: reading stopped 8 times in a row: the session is broken"):
        run_jobs([failing, other], LEASE, nobody(), renewed, threading.Event())
    assert not other.is_running


def test_jobs_wait_for_kafka_and_the_store_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "MAX_PAUSE_S", 0.01)
    monkeypatch.setattr(job_runner, "FIRST_PAUSE_S", 0.01)
    stopping = threading.Event()

    def fails(life: int) -> None:
        if life > 2 * job_runner.MOST_FAILURES:
            stopping.set()
        raise (KafkaUnavailable if life % 2 else StoreUnavailable)("away")

    assert run_jobs([Job("partitions", fails)], LEASE, nobody(), renewed, stopping) is None


def test_the_lease_is_renewed_only_while_all_jobs_make_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "RENEW_EVERY_S", 0.01)
    renewals: list[int] = []
    stopping = threading.Event()
    liveness = nobody()
    asked: list[bool] = []
    monkeypatch.setattr(liveness, "earns_renewal", lambda: asked.append(True))
    job = Job("partitions")
    running = threading.Thread(target=run_jobs, args=([job], LEASE, liveness, lambda: renewals.append(1), stopping))
    running.start()
    wait_for(lambda: len(asked) > 3, "more than three checks of the progress")
    assert renewals == []
    monkeypatch.setattr(liveness, "earns_renewal", lambda: True)
    wait_for(lambda: renewals, "a renewal")
    stopping.set()
    running.join(LIMIT_S)
