"""Tests of a server's limits. If there are too many connections, idle connections are closed. A flood of log lines is
cut."""

from __future__ import annotations

import io
import logging
import resource
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from service.server.protocol import HeldConnections, most_connections
from service.server.running import MOST_ALIKE, PERIOD_S, LogLimit


class Client:
    def __init__(self, peer: str = "10.0.0.1") -> None:
        self.peer, self.is_open = peer, True

    def give_way(self) -> None:
        self.is_open = False


def added(book: HeldConnections, number: int, peer: str) -> list[Client]:
    clients = [Client(peer) for _ in range(number)]
    assert all(book.add(client) for client in clients)
    return clients


def test_the_connection_that_waits_longest_is_closed() -> None:
    book = HeldConnections(6)
    a, b = added(book, 3, "a"), added(book, 3, "b")
    book.set_waiting(a[0], waits=False)
    book.set_waiting(a[0], waits=True)  # a[0] waits again after its answer, for the shortest time of all
    assert book.add(Client("c"))
    assert [client.is_open for client in (*a, *b)] == [True, False, True, True, True, True]


def test_a_peer_with_half_of_the_places_loses_a_connection_of_its_own() -> None:
    book = HeldConnections(6)
    other, mine = added(book, 1, "other"), added(book, 3, "mine")
    assert book.add(Client("mine"))
    assert [client.is_open for client in (*other, *mine)] == [True, False, True, True]


def test_a_connection_with_a_request_in_work_is_never_closed() -> None:
    book = HeldConnections(4)
    busy = [*added(book, 2, "a"), *added(book, 2, "b")]
    for client in busy:
        book.set_waiting(client, waits=False)
    assert not book.add(Client("c"))
    assert all(one.is_open for one in busy)
    book.remove(busy[0])
    assert book.add(Client("c"))


def test_a_closed_connection_is_forgotten_once() -> None:
    book = HeldConnections(2)
    (old,) = added(book, 1, "a")
    assert book.add(Client("a"))
    book.remove(old)  # the server does this when the socket is closed
    book.set_waiting(old, waits=True)
    assert book.add(Client("b"))
    assert book._of_peer == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("limits", "most", "raised"),
    [
        ((1_024, 1_024), 512, 1_024),
        ((1_024, 1_000_000), 8_192, 8_704),
        ((64, 64), 16, 64),
        ((100_000, resource.RLIM_INFINITY), 8_192, 100_000),
        ((1_024, resource.RLIM_INFINITY), 8_192, 8_704),
    ],
)
def test_the_limit_of_open_files_limits_connections(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], most: int, raised: int
) -> None:
    now = list(limits)
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(now))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: now.__setitem__(slice(None), new))
    assert (most_connections(), now[0]) == (most, raised)


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


def test_a_flood_of_log_lines_is_cut_and_counted(logged: Logged) -> None:
    for number in range(1_000 + MOST_ALIKE):
        logged.logger.warning("bad request from %s", number)
    assert len(logged.lines()) == MOST_ALIKE
    logged.now_s[0] += PERIOD_S
    logged.logger.warning("bad request from %s", "you")
    assert logged.lines()[-1] == "bad request from you (1,000 more such lines were left out)"


def test_log_lines_of_another_kind_are_written(logged: Logged) -> None:
    for _ in range(100):
        logged.logger.warning("a flood")
    logged.logger.error("the store is gone")
    assert logged.lines()[-1] == "the store is gone"


def test_a_few_log_lines_now_and_then_are_all_written(logged: Logged) -> None:
    for _ in range(5):
        for _ in range(MOST_ALIKE):
            logged.logger.warning("slow")
        logged.now_s[0] += PERIOD_S
    assert logged.lines() == ["slow"] * 5 * MOST_ALIKE


def test_ever_new_log_messages_do_not_fill_the_memory(logged: Logged) -> None:
    limit = logged.logger.handlers[0].filters[0]
    assert isinstance(limit, LogLimit)
    for number in range(3_000):
        logged.logger.warning(f"message {number}")
    assert len(limit._told) <= 1_000
