"""Tests of periodic work beside the reading of the log. The work continues after failures, and ends when the lease is
lost or the `with` block ends."""

from __future__ import annotations

import logging
import threading

import pytest

from service.store.errors import LeaseLost, StoreUnavailable
from spark_jobs.runtime import periodic
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.periodic import repeated
from tests.helpers.waiting import LIMIT_S, wait_for


def test_the_work_is_repeated_until_the_with_block_ends() -> None:
    times: list[int] = []
    thrice = threading.Event()

    def work(now_ms: int) -> float:
        times.append(now_ms)
        if len(times) == 3:
            thrice.set()
        return 0.001

    with repeated("work", work, Liveness(list)):
        assert thrice.wait(LIMIT_S)
    done = len(times)
    assert times == sorted(times)
    assert not [thread for thread in threading.enumerate() if thread.name == "work"]
    assert len(times) == done


def test_a_wake_event_ends_the_pause() -> None:
    news, called = threading.Event(), threading.Semaphore(0)

    def work(_now_ms: int) -> float:
        called.release()
        return 3_600.0

    with repeated("work", work, Liveness(list), wake=news):
        assert called.acquire(timeout=LIMIT_S)
        news.set()
        assert called.acquire(timeout=LIMIT_S), "the wake event must end the pause of an hour"


def test_a_wake_event_does_not_shorten_the_pause_after_a_failure() -> None:
    news, failed, calls = threading.Event(), threading.Event(), list[int]()

    def work(now_ms: int) -> float:
        calls.append(now_ms)
        failed.set()
        raise StoreUnavailable("store: locked")

    with repeated("work", work, Liveness(list), wake=news):
        assert failed.wait(LIMIT_S)
        news.set()
        wait_for(lambda: len(calls) > 1, "the next call")
    assert calls[1] - calls[0] >= 1_000


def test_a_failure_is_reported_once_and_the_work_is_repeated(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic, "LONGEST_PAUSE_S", 0.001)
    calls: list[int] = []
    over = threading.Event()

    def work(now_ms: int) -> float:
        calls.append(now_ms)
        if len(calls) < 4:
            raise StoreUnavailable("store: locked")
        over.set()
        return 60.0

    with caplog.at_level(logging.WARNING), repeated("the judge", work, Liveness(list)):
        assert over.wait(LIMIT_S)
    assert [record.message for record in caplog.records] == ["the judge waits and tries again: store: locked"]


def test_the_work_stops_when_the_lease_is_lost() -> None:
    calls: list[int] = []

    def work(now_ms: int) -> float:
        calls.append(now_ms)
        raise LeaseLost("another writes")

    with repeated("work", work, Liveness(list)):
        for thread in [thread for thread in threading.enumerate() if thread.name == "work"]:
            thread.join(LIMIT_S)
    assert len(calls) == 1


def test_waiting_for_the_store_is_progress_and_a_lasting_failure_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that waits for the store makes progress. A part that fails again and again because of its own error makes
    no progress."""
    monkeypatch.setattr(periodic, "LONGEST_PAUSE_S", 0.001)
    failure: list[Exception] = [StoreUnavailable("locked")]
    calls: list[int] = []

    def work(now_ms: int) -> float:
        calls.append(now_ms)
        raise failure[0]

    liveness = Liveness(list)
    with repeated("work", work, liveness, holds_lease=True):
        (part,) = liveness._parts
        wait_for(lambda: part.has_progressed() and len(calls) > 3, "progress while the work waits for the store")
        failure[0] = ValueError("a mistake")
        seen = len(calls)
        wait_for(lambda: len(calls) > seen + 3, "more rounds")
        part.has_progressed()
        seen = len(calls)
        wait_for(lambda: len(calls) > seen + 3, "more rounds")
        assert not part.has_progressed()
