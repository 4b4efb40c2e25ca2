"""Tests of the notifier: every receiver gets the events of each finding in order, whatever fails meanwhile. Only a
notification that the receiver refuses again and again is dropped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from service.domain.findings.kinds import Kind, Severity
from service.notifications import notifier
from service.notifications.delivery import Outbox
from service.notifications.notification import Notification, Receiver, Selection, Undelivered
from service.notifications.notifier import Configured, Notifier
from service.store import receivers
from service.store.receivers import ReceiverState
from tests.helpers.findings import WithFindings, observe
from tests.helpers.stores import NOW_MS
from tests.helpers.waiting import wait_until
from tests.service.notifications.test_delivery import render


def stored(cluster: WithFindings) -> None:
    cluster.read()


pytestmark = pytest.mark.cluster(stored=stored)


KINDS = (Kind.OVERDUE, Kind.LONG_RUNNING, Kind.STUCK_COMPLETION)
"""The kinds of the 510 findings in a test of an outage. There are three, because at most 200 findings of one kind can
be open."""


class Notebook(Receiver):
    """A receiver that records its notifications. `fails` is called before each one, with the number of notifications
    recorded so far."""

    def __init__(self, fails: Callable[[int], None] = lambda _: None) -> None:
        self.taken: list[tuple[str, str]] = []
        self.messages: list[int] = []
        self.repeated = threading.Event()
        self._fails = fails

    def send(self, notifications: Sequence[Notification]) -> None:
        self.messages.append(len(notifications))
        for number, notification in enumerate(notifications):
            try:
                self._fails(len(self.taken))
            except Undelivered as error:
                error.taken = number
                raise
            self.taken.append((notification.finding.id, notification.event))

    def repeat(self, notifications: Sequence[Notification]) -> None:
        assert notifications
        self.repeated.set()

    def of(self, event: str) -> int:
        return sum(word == event for _, word in self.taken)


@contextmanager
def notifying(cluster: WithFindings, **named: Notebook) -> Iterator[None]:
    configured = [
        Configured(Outbox(cluster.engine, cluster.engine, name, "webhook", Selection(Severity.INFO), render), notebook)
        for name, notebook in named.items()
    ]
    running = Notifier(cluster.engine, configured, lambda: NOW_MS, time.monotonic)
    running.start()
    try:
        yield
    finally:
        running.stop(30)


def states(cluster: WithFindings) -> dict[str, ReceiverState]:
    with cluster.engine.connect() as connection:
        return {receiver.name: receiver for receiver in receivers.read_receivers(connection)}


def are_known(cluster: WithFindings, *names: str) -> None:
    wait_until(lambda: states(cluster).keys(), lambda known: known >= set(names), "the receivers to be in the store")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READ_EVERY_S", "FIRST_PAUSE_S", "LONGEST_PAUSE_S", "OVERLOOKED_EVERY_S", "GATHER_S"):
        monkeypatch.setattr(notifier, name, 0.02)


def test_events_reach_every_receiver_in_order(cluster: WithFindings) -> None:
    mail, chat = Notebook(), Notebook()
    with notifying(cluster, mail=mail, chat=chat):
        are_known(cluster, "mail", "chat")
        cluster.see(observe())
        cluster.see(now_ms=NOW_MS + 1)
        wait_until(lambda: mail.of("resolved") and chat.of("resolved"), bool, "the end of the finding")
    assert [word for _, word in mail.taken] == [word for _, word in chat.taken] == ["opened", "resolved"]


def test_a_receiver_that_fails_holds_up_no_other_one(cluster: WithFindings) -> None:
    works = threading.Event()

    def fail(_: int) -> None:
        if not works.is_set():
            raise Undelivered("it answered 503")

    away, mail = Notebook(fail), Notebook()
    with notifying(cluster, away=away, mail=mail):
        are_known(cluster, "away", "mail")
        cluster.see(observe())
        wait_until(lambda: mail.taken, bool, "the mail")
        wait_until(lambda: states(cluster)["away"].failed, lambda failed: failed >= 2, "two attempts")
        assert states(cluster)["away"].error == "it answered 503"
        works.set()
        wait_until(lambda: states(cluster)["away"].error, lambda error: error is None, "the receiver that was away")
    assert len(away.taken) == 1


def test_what_was_taken_is_not_sent_again_after_a_failure(cluster: WithFindings) -> None:
    failures = iter([3, 7, 7])
    next_one = next(failures)

    def fail(has: int) -> None:
        nonlocal next_one
        if has == next_one:
            next_one = next(failures, -1)
            raise Undelivered("cut off")

    mail = Notebook(fail)
    with notifying(cluster, mail=mail):
        are_known(cluster, "mail")
        cluster.see(*(observe(name=b"pay-%d" % number) for number in range(10)))
        cluster.see(now_ms=NOW_MS + 1)
        wait_until(lambda: mail.of("resolved"), lambda number: number == 10, "all ends")
    assert len(mail.taken) == len(set(mail.taken)) == 20


def test_a_notification_that_is_always_refused_is_dropped_and_counted(cluster: WithFindings) -> None:
    def fail(has: int) -> None:
        if has == 1:
            raise Undelivered("it answered 400", is_refused=True)

    mail = Notebook(fail)
    with notifying(cluster, mail=mail):
        are_known(cluster, "mail")
        cluster.see(observe(name=b"first"))
        cluster.see(observe(name=b"first"), observe(name=b"second"), now_ms=NOW_MS + 1)
        wait_until(lambda: states(cluster)["mail"].dropped, bool, "the refused event to be dropped")
        assert (len(mail.taken), states(cluster)["mail"].pending) == (1, 0)


def test_a_bug_in_a_receiver_is_shown_and_does_not_end_it(cluster: WithFindings) -> None:
    failures = iter([ZeroDivisionError("a bug")])

    def fail(_: int) -> None:
        if (error := next(failures, None)) is not None:
            raise error

    mail = Notebook(fail)
    with notifying(cluster, mail=mail):
        are_known(cluster, "mail")
        cluster.see(observe())
        wait_until(lambda: mail.taken, bool, "the second attempt")
        assert states(cluster)["mail"].failed == 1


def test_events_of_one_moment_are_one_message_to_people(cluster: WithFindings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "GATHER_S", 1.0)
    people = Notebook()
    people.gathers_s = 2.0
    with notifying(cluster, people=people):
        are_known(cluster, "people")
        for number in range(20):
            cluster.see(*(observe(name=b"pay-%d" % one) for one in range(number + 1)), now_ms=NOW_MS + number)
        wait_until(lambda: people.of("opened"), lambda number: number == 20, "all findings")
    assert len(people.messages) <= 2


def test_an_outage_of_500_ids_is_a_few_messages_to_people(cluster: WithFindings) -> None:
    """Times are a tenth of the real ones. The pause between two messages is 2 s instead of 20 s. The findings open
    within 6 s instead of a minute, or later on a busy machine."""
    people = Notebook()
    people.gathers_s = 2.0
    with notifying(cluster, people=people):
        are_known(cluster, "people")
        started_s = time.monotonic()
        for number in range(1, 11):
            names = [b"pay-%d" % one for one in range(17 * number)]
            cluster.see(*(observe(kind, name) for kind in KINDS for name in names), now_ms=NOW_MS + number)
        wait_until(lambda: people.of("opened"), lambda number: number == 510, "all findings")
    assert len(people.messages) <= 2 + (time.monotonic() - started_s) / people.gathers_s


def test_a_receiver_that_wants_it_hears_of_open_findings_again(cluster: WithFindings) -> None:
    pager = Notebook()
    pager.repeats_every_s = 0.05
    with notifying(cluster, pager=pager):
        are_known(cluster, "pager")
        cluster.see(observe())
        assert pager.repeated.wait(60)


def test_only_one_of_two_services_notifies(cluster: WithFindings) -> None:
    first, second = Notebook(), Notebook()
    with notifying(cluster, mail=first):
        are_known(cluster, "mail")
        with notifying(cluster, mail=second):
            cluster.see(observe())
            wait_until(lambda: len(first.taken) + len(second.taken), bool, "the notification")
            time.sleep(0.3)  # enough time for a second notification, which must not come
    assert len(first.taken) + len(second.taken) == 1
