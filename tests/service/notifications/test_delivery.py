"""Receivers get every event in order, whatever fails, and whoever is started again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from service.notifications import delivery
from service.notifications.delivery import Delivered, Undelivered, deliver
from service.store.finding_events import FindingEvent
from service.store.writers import findings as writer
from tests.helpers.findings import WithFindings, observe
from tests.helpers.stores import NOW_MS


class Notebook:
    """A receiver that notes the numbers of events, and may be away."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.noted: list[int] = []
        self.is_away = False

    def receive(self, events: Sequence[FindingEvent]) -> None:
        if self.is_away:
            raise Undelivered("nobody is at home")
        self.noted += [one.sequence for one in events]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WithFindings]:
    cluster = WithFindings(f"sqlite:///{tmp_path}/store.db")
    cluster.read()
    yield cluster
    cluster.close()


def happen(cluster: WithFindings, number: int, first: int = 0) -> None:
    """A finding opens and ends in turn."""
    for at in range(first, first + number):
        cluster.see(*([observe()] if at % 2 == 0 else []), now_ms=NOW_MS + at)


def test_a_new_receiver_begins_with_what_happens_next(cluster: WithFindings) -> None:
    happen(cluster, 2)
    mail = Notebook("mail")
    assert deliver(cluster.engine, mail) == Delivered(0, skipped=False, is_all=True)
    happen(cluster, 2, first=2)
    assert deliver(cluster.engine, mail) == Delivered(2, skipped=False, is_all=True)
    assert mail.noted == [3, 4]


def test_each_receiver_has_a_position_of_its_own_that_outlives_it(cluster: WithFindings) -> None:
    mail, chat = Notebook("mail"), Notebook("chat")
    for one in (mail, chat):
        deliver(cluster.engine, one)
    happen(cluster, 4)
    chat.is_away = True
    deliver(cluster.engine, mail)
    with pytest.raises(Undelivered):
        deliver(cluster.engine, chat)
    happen(cluster, 2, first=4)
    chat_again = Notebook("chat")
    for one in (mail, chat_again):
        deliver(cluster.engine, one)
    assert mail.noted == chat_again.noted == [1, 2, 3, 4, 5, 6]


def test_many_events_come_in_pieces_in_order(cluster: WithFindings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "AT_ONCE", 3)
    mail = Notebook("mail")
    deliver(cluster.engine, mail)
    happen(cluster, 7)
    pieces = [deliver(cluster.engine, mail) for _ in range(3)]
    assert [(one.events, one.is_all) for one in pieces] == [(3, False), (3, False), (1, True)]
    assert mail.noted == [1, 2, 3, 4, 5, 6, 7]


def test_a_receiver_that_was_away_for_too_long_hears_that_events_are_gone(
    cluster: WithFindings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "EVENTS_KEPT", 3)
    mail = Notebook("mail")
    deliver(cluster.engine, mail)
    happen(cluster, 6)
    assert deliver(cluster.engine, mail).skipped
    happen(cluster, 2, first=6)
    assert not deliver(cluster.engine, mail).skipped
    assert mail.noted == [7, 8]
