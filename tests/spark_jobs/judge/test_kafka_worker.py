"""Tests of requests that another thread answers: the caller never waits, and a failure does not end the thread."""

from __future__ import annotations

import logging
import threading

import pytest

from service.kafka.errors import KafkaUnavailable
from service.kafka.settings import ClientSettings
from spark_jobs.judge.kafka_worker import KafkaWorker
from spark_jobs.runtime.liveness import Liveness
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until

NOWHERE = ClientSettings(("127.0.0.1:1",))


class Echo(KafkaWorker[str, str]):
    """A worker that answers once the test allows it. The questions "UNAVAILABLE" and "WRONG" fail."""

    def __init__(self) -> None:
        super().__init__("echo", NOWHERE, Liveness(list))
        self.may = threading.Event()

    def _answer(self, question: str) -> None:
        self.may.wait(LIMIT_S)
        with self._trying("not answered"):
            if question == "UNAVAILABLE":
                raise KafkaUnavailable("no broker answers")
            if question == "WRONG":
                raise ValueError("unknown kind of question")
            self._answers.put(question)


def answers(echo: Echo, count: int) -> list[str]:
    found: list[str] = []

    def all_of_them() -> list[str]:
        found.extend(echo.answers())
        return found

    return wait_until(all_of_them, lambda found: len(found) >= count, f"{count} answers")


def test_a_busy_worker_refuses_a_request_without_blocking() -> None:
    with Echo() as echo:
        assert echo.ask("first")
        assert not echo.ask("second")
        assert echo.answers() == []
        echo.may.set()
        wait_for(lambda: echo.ask("third"), "its turn")
        assert answers(echo, 2) == ["first", "third"]


@pytest.mark.parametrize(("failing", "reported"), [("UNAVAILABLE", 0), ("WRONG", 1)])
def test_a_failure_loses_only_one_answer(failing: str, reported: int, caplog: pytest.LogCaptureFixture) -> None:
    """If a broker is away, no warning is logged: the question will soon be repeated."""
    with caplog.at_level(logging.WARNING), Echo() as echo:
        echo.may.set()
        assert echo.ask(failing)
        wait_for(lambda: echo.ask("next"), "its turn")
        assert answers(echo, 1) == ["next"]
    assert len(caplog.records) == reported


def test_the_thread_ends_with_the_with_block() -> None:
    with Echo() as echo:
        threads = [thread for thread in threading.enumerate() if thread.name == "echo"]
        assert threads
        echo.may.set()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
