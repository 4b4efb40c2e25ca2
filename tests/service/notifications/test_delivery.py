"""Tests of a receiver's next notifications: which events they contain, in which order, and what the store keeps about
the receiver."""

from __future__ import annotations

import pytest

from service.access.actions import Action, Outcome
from service.domain.application_rules import Assigned
from service.domain.findings.finding import Finding, Subject
from service.domain.findings.kinds import Kind, Severity
from service.notifications import delivery
from service.notifications.delivery import Batch, Outbox
from service.notifications.notification import Selection
from service.store import lease, receivers
from service.store.audit_events import AuditEvent
from service.store.errors import LeaseLost
from service.store.finding_marks import Wish, end_mute, set_mute
from service.store.lease import NOTIFIER, Lease
from service.store.receivers import ReceiverState
from service.store.writers import findings as writer
from service.store.writers.applications import ApplicationWriter
from tests.helpers.findings import WithFindings, observe
from tests.helpers.stores import NOW_MS, Id


def stored(cluster: WithFindings) -> None:
    cluster.read()


pytestmark = pytest.mark.cluster(stored=stored)

LATER_MS = NOW_MS + 3_600_000


@pytest.fixture
def held(cluster: WithFindings) -> Lease:
    return held_by(cluster, "one")


def held_by(cluster: WithFindings, owner: str) -> Lease:
    expired = lease.newest_renewal(cluster.engine, NOTIFIER)
    taken = lease.acquire(cluster.engine, NOTIFIER, owner, NOW_MS, expired)
    assert taken is not None
    return taken


def render(cluster: str, finding: Finding) -> tuple[str, str]:
    return "{}", f"https://txnscope/clusters/{cluster}/findings/{finding.id}"


def outbox(cluster: WithFindings, wanted: Selection | None = None, name: str = "mail") -> Outbox:
    return Outbox(cluster.engine, cluster.engine, name, "webhook", wanted or Selection(Severity.INFO), render)


def started(cluster: WithFindings, held: Lease, wanted: Selection | None = None, name: str = "mail") -> Outbox:
    box = outbox(cluster, wanted, name)
    box.begin(held)
    return box


def events(batch: Batch) -> list[str]:
    return [notification.event for notification in batch.notifications]


def state_of(cluster: WithFindings, name: str = "mail") -> ReceiverState:
    with cluster.engine.connect() as connection:
        return next(receiver for receiver in receivers.read_receivers(connection) if receiver.name == name)


def test_opening_and_end_come_in_order_until_they_are_taken(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held)
    cluster.see(observe())
    cluster.see(now_ms=NOW_MS + 1)
    assert events(box.next(NOW_MS)) == events(box.next(NOW_MS)) == ["opened", "resolved"]
    box.done(held, box.next(NOW_MS), NOW_MS)
    assert events(box.next(NOW_MS)) == []
    assert state_of(cluster) == ReceiverState("mail", "webhook", 2, 2, 0, 0, NOW_MS, None, None, 0)


def test_a_batch_that_was_taken_in_part_goes_on_after_it(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held)
    cluster.see(observe())
    cluster.see(now_ms=NOW_MS + 1)
    box.done(held, box.next(NOW_MS), NOW_MS, taken=1)
    assert events(box.next(NOW_MS)) == ["resolved"]


def test_each_receiver_has_a_position_of_its_own(cluster: WithFindings, held: Lease) -> None:
    mail, chat = started(cluster, held), started(cluster, held, name="chat")
    cluster.see(observe())
    mail.done(held, mail.next(NOW_MS), NOW_MS)
    chat.failed(held, "it answered 503", NOW_MS)
    chat.failed(held, "it answered 502", NOW_MS + 5)
    cluster.see(now_ms=NOW_MS + 1)
    assert events(mail.next(NOW_MS)) == ["resolved"]
    assert events(outbox(cluster, name="chat").next(NOW_MS)) == ["opened", "resolved"]
    assert state_of(cluster, "chat") == ReceiverState("chat", "webhook", 0, 0, 2, 0, None, NOW_MS, "it answered 502", 2)


def test_many_events_come_in_pieces(cluster: WithFindings, held: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "AT_ONCE", 2)
    box = started(cluster, held)
    cluster.see(*(observe(name=b"pay-%d" % number) for number in range(3)))
    pieces = []
    for _ in range(2):
        batch = box.next(NOW_MS)
        pieces.append((len(batch.notifications), batch.is_all))
        box.done(held, batch, NOW_MS)
    assert pieces == [(2, False), (1, True)]


def test_events_that_are_gone_are_counted(cluster: WithFindings, held: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "EVENTS_KEPT", 1)
    box = started(cluster, held)
    for at in range(3):
        cluster.see(*([observe()] if at % 2 == 0 else []), now_ms=NOW_MS + at)
    batch = box.next(NOW_MS)
    box.done(held, batch, NOW_MS)
    assert state_of(cluster).dropped == 3
    assert events(box.overlooked(batch.sequence, NOW_MS, with_mutes=False)) == ["opened"], (
        "the finding is still open, so the receiver is notified although the event is gone"
    )


def test_a_receiver_that_is_new_hears_of_what_is_open(cluster: WithFindings, held: Lease) -> None:
    cluster.see(observe())
    box = started(cluster, held)
    batch = box.next(NOW_MS)
    assert events(batch) == []
    found = box.overlooked(batch.sequence, NOW_MS, with_mutes=False)
    assert events(found) == ["opened"]
    box.done(held, found, NOW_MS)
    assert events(box.overlooked(batch.sequence, NOW_MS, with_mutes=False)) == []
    cluster.see(now_ms=NOW_MS + 1)
    assert events(box.next(NOW_MS)) == ["resolved"]


def test_what_an_event_will_say_is_not_overlooked(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held)
    cluster.see(observe())
    assert events(box.overlooked(0, NOW_MS, with_mutes=False)) == []


def test_a_candidate_is_no_news(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held)
    hanging = observe(
        Kind.HANGING, subject=Subject(topic="orders", partition=0, producer_id=1), severity=Severity.CRITICAL
    )
    cluster.see(hanging._replace(confirmed=False))
    cluster.see(now_ms=NOW_MS + 1)
    assert events(box.next(NOW_MS)) == []
    cluster.see(hanging._replace(confirmed=False), now_ms=NOW_MS + 2)
    cluster.see(hanging, now_ms=NOW_MS + 3)
    assert events(box.next(NOW_MS)) == ["confirmed"]


@pytest.mark.parametrize(
    ("wanted", "number"),
    [
        (Selection(Severity.INFO), 1),
        (Selection(Severity.WARNING), 1),
        (Selection(Severity.CRITICAL), 0),
        (Selection(kinds=frozenset({Kind.OVERDUE})), 1),
        (Selection(kinds=frozenset({Kind.HANGING})), 0),
        (Selection(owner="pay*"), 1),
        (Selection(owner="search"), 0),
        (Selection(topic="orders"), 1),
        (Selection(topic="audit-*"), 0),
        (Selection(cluster="orders"), 1),
        (Selection(cluster="staging"), 0),
        (Selection(application="shop*"), 1),
        (Selection(application="till"), 0),
    ],
)
def test_each_filter_selects(cluster: WithFindings, held: Lease, wanted: Selection, number: int) -> None:
    box = started(cluster, held, wanted)
    cluster.read([Id(b"pay")])
    ApplicationWriter(cluster.engine, cluster.lease).assign({b"pay": Assigned("shop-eu")}, NOW_MS)
    cluster.see(observe(owner="payments", subject=Subject(topic="orders", partition=0, transactional_id=b"pay")))
    assert len(box.next(NOW_MS).notifications) == number


def test_a_finding_whose_application_is_known_later_is_not_missed(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held, Selection(application="shop"))
    cluster.read([Id(b"pay")])
    cluster.see(observe())
    box.done(held, box.next(NOW_MS), NOW_MS)
    assert events(box.overlooked(1, NOW_MS, with_mutes=False)) == []
    ApplicationWriter(cluster.engine, cluster.lease).assign({b"pay": Assigned("shop")}, NOW_MS)
    assert events(box.overlooked(1, NOW_MS, with_mutes=False)) == ["opened"]


def test_the_end_comes_though_the_filter_fits_no_longer(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held, Selection(Severity.CRITICAL))
    cluster.see(observe(severity=Severity.CRITICAL))
    box.done(held, box.next(NOW_MS), NOW_MS)
    cluster.see(observe(severity=Severity.WARNING), now_ms=NOW_MS + 1)
    cluster.see(now_ms=NOW_MS + 2)
    assert events(box.next(NOW_MS)) == ["updated", "resolved"]


def mute(cluster: WithFindings, until_ms: int = LATER_MS) -> int:
    wish = Wish(None, "pay", None, until_ms, "an upgrade")
    with cluster.engine.begin() as connection:
        return set_mute(connection, cluster.id, wish, AuditEvent(NOW_MS, Action.MUTE, Outcome.SET, "ann")).id


def test_a_muted_finding_is_quiet_until_its_mute_ends(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held)
    number = mute(cluster)
    cluster.see(observe())
    box.done(held, box.next(NOW_MS), NOW_MS)
    assert state_of(cluster).delivered == 0
    assert events(box.overlooked(1, NOW_MS, with_mutes=False)) == []
    with cluster.engine.begin() as connection:
        assert end_mute(connection, cluster.id, number, AuditEvent(NOW_MS, Action.MUTE, Outcome.ENDED, "ann"))
    assert events(box.overlooked(1, NOW_MS, with_mutes=False)) == ["opened"]


def test_what_ends_while_it_is_muted_was_never_news(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held)
    mute(cluster)
    cluster.see(observe())
    cluster.see(now_ms=NOW_MS + 1)
    assert events(box.next(NOW_MS)) == events(box.overlooked(2, LATER_MS, with_mutes=False)) == []


def test_a_receiver_that_repeats_hears_of_a_mute(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held)
    cluster.see(observe())
    box.done(held, box.next(NOW_MS), NOW_MS)
    assert len(box.known_open(1, NOW_MS)) == 1
    mute(cluster)
    assert box.known_open(1, NOW_MS) == []
    muted = box.overlooked(1, NOW_MS, with_mutes=True)
    assert events(muted) == ["muted"]
    box.done(held, muted, NOW_MS)
    assert events(box.overlooked(1, NOW_MS, with_mutes=True)) == []
    assert events(box.overlooked(1, LATER_MS, with_mutes=True)) == ["opened"], (
        "the receiver is told of the open finding when the mute has ended"
    )


def test_a_service_without_the_lease_writes_nothing(cluster: WithFindings, held: Lease) -> None:
    box = started(cluster, held)
    cluster.see(observe())
    held_by(cluster, "another")
    with pytest.raises(LeaseLost):
        box.check(held)
    with pytest.raises(LeaseLost):
        box.done(held, box.next(NOW_MS), NOW_MS)
    assert events(box.next(NOW_MS)) == ["opened"]


def test_a_receiver_that_is_configured_no_longer_is_forgotten(cluster: WithFindings, held: Lease) -> None:
    started(cluster, held)
    started(cluster, held, name="chat")
    with cluster.engine.begin() as connection:
        receivers.keep_only(connection, ["chat"])
        assert [receiver.name for receiver in receivers.read_receivers(connection)] == ["chat"]
