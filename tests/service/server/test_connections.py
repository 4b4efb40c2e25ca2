"""Connections that give way if there are too many."""

from __future__ import annotations

import resource

import pytest

from service.server.protocol import Connections, most_connections


class Client:
    def __init__(self, peer: str = "10.0.0.1") -> None:
        self.peer, self.is_open = peer, True

    def give_way(self) -> None:
        self.is_open = False


def added(book: Connections, number: int, peer: str) -> list[Client]:
    clients = [Client(peer) for _ in range(number)]
    assert all(book.add(one) for one in clients)
    return clients


def test_the_one_that_waits_for_longest_gives_way() -> None:
    book = Connections(6)
    a, b = added(book, 3, "a"), added(book, 3, "b")
    book.set_waiting(a[0], waits=False)
    book.set_waiting(a[0], waits=True)  # its request was answered: it waits anew, behind the others
    assert book.add(Client("c"))
    assert [one.is_open for one in (*a, *b)] == [True, False, True, True, True, True]


def test_a_peer_that_has_half_of_the_places_makes_room_for_itself() -> None:
    book = Connections(6)
    other, mine = added(book, 1, "other"), added(book, 3, "mine")
    assert book.add(Client("mine"))
    assert [one.is_open for one in (*other, *mine)] == [True, False, True, True]


def test_a_request_in_work_never_gives_way() -> None:
    book = Connections(4)
    busy = [*added(book, 2, "a"), *added(book, 2, "b")]
    for one in busy:
        book.set_waiting(one, waits=False)
    assert not book.add(Client("c"))
    assert all(one.is_open for one in busy)
    book.remove(busy[0])
    assert book.add(Client("c"))


def test_one_that_gave_way_is_forgotten_once() -> None:
    book = Connections(2)
    (old,) = added(book, 1, "a")
    assert book.add(Client("a"))
    book.remove(old)  # when its socket is closed
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
def test_there_are_as_many_places_as_files_allow(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], most: int, raised: int
) -> None:
    now = list(limits)
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(now))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: now.__setitem__(slice(None), new))
    assert (most_connections(), now[0]) == (most, raised)
