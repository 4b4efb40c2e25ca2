"""A flood of lines is cut, and the log says so."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from service.server.running import MOST_ALIKE, PERIOD_S, LogLimit


class Logged(NamedTuple):
    logger: logging.Logger
    text: io.StringIO
    now_s: list[float]

    def lines(self) -> list[str]:
        return self.text.getvalue().splitlines()


@pytest.fixture
def logged() -> Iterator[Logged]:
    logger, text, now_s = logging.getLogger("flooded"), io.StringIO(), [1_000.0]
    handler = logging.StreamHandler(text)
    handler.addFilter(LogLimit(lambda: now_s[0]))
    logger.addHandler(handler)
    logger.propagate = False
    yield Logged(logger, text, now_s)
    logger.removeHandler(handler)


def test_a_flood_is_cut_and_counted(logged: Logged) -> None:
    for number in range(1_000 + MOST_ALIKE):
        logged.logger.warning("bad request from %s", number)
    assert len(logged.lines()) == MOST_ALIKE
    logged.now_s[0] += PERIOD_S
    logged.logger.warning("bad request from %s", "you")
    assert logged.lines()[-1] == "bad request from you (1,000 more such lines were left out)"


def test_lines_of_another_kind_pass(logged: Logged) -> None:
    for _ in range(100):
        logged.logger.warning("a flood")
    logged.logger.error("the store is gone")
    assert logged.lines()[-1] == "the store is gone"


def test_a_few_lines_now_and_then_are_all_written(logged: Logged) -> None:
    for _ in range(5):
        for _ in range(MOST_ALIKE):
            logged.logger.warning("slow")
        logged.now_s[0] += PERIOD_S
    assert logged.lines() == ["slow"] * 5 * MOST_ALIKE


def test_ever_new_messages_do_not_fill_the_memory(logged: Logged) -> None:
    limit = logged.logger.handlers[0].filters[0]
    assert isinstance(limit, LogLimit)
    for number in range(3_000):
        logged.logger.warning(f"message {number}")
    assert len(limit._told) <= 1_000
