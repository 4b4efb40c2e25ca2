"""Tests of API keys, the audit and mutes on both databases: what is stored, for how long, and what is never stored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select

from service.access.actions import Action, Outcome
from service.access.credentials import digest_of, new_key
from service.access.principal import parse_grants
from service.domain.findings.finding import Finding, RoundResult
from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import reconcile
from service.domain.partitions.facts import MarkerType
from service.store import api_keys, audit_events, finding_marks, schema
from service.store.audit_events import Attempt, AuditEvent, AuditSelection
from service.store.engine import open_engine
from service.store.errors import StoreError
from service.store.finding_marks import Wish
from service.store.retention import AUDIT_KEPT_MS, Retention
from tests.helpers.findings import observe
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, rows

ROLES = parse_grants(["viewer", "operator@a b"])
EVENT = AuditEvent(NOW_MS, Action.MUTE, Outcome.SET, "ann", "10.0.0.1", "", "why")


def audited(engine: Engine, cluster_id: int, **selection: object) -> list[AuditEvent]:
    with engine.connect() as connection:
        rows = audit_events.read_page(connection, cluster_id, AuditSelection(**selection), None, 200)  # type: ignore[arg-type]
    return [row.event for row in rows]


def test_only_the_digest_of_a_key_is_stored(cluster: Cluster) -> None:
    key = new_key()
    api_keys.create(cluster.engine, "ann", key, ROLES, "root", NOW_MS)
    with cluster.engine.connect() as connection:
        (row,) = connection.execute(select(schema.api_keys)).all()
        (valid,) = api_keys.read_valid(connection)
    assert not [value for value in row if key in str(value)]
    assert (valid.name, valid.digest, valid.grants) == ("ann", digest_of(key), ROLES)


def test_a_name_has_one_valid_key_and_keeps_its_revoked_ones(cluster: Cluster) -> None:
    for _ in range(2):
        api_keys.create(cluster.engine, "ann", new_key(), ROLES, "root", NOW_MS)
        with pytest.raises(StoreError, match="there is a key 'ann' already"):
            api_keys.create(cluster.engine, "ann", new_key(), ROLES, "root", NOW_MS)
        api_keys.revoke(cluster.engine, "ann", "bob", NOW_MS + 1)
    with pytest.raises(StoreError, match="there is no valid key 'ann'"):
        api_keys.revoke(cluster.engine, "ann", "bob", NOW_MS)
    with cluster.engine.connect() as connection:
        assert api_keys.read_valid(connection) == []
        assert [(key_row.name, key_row.revoked_by) for key_row in api_keys.read_all(connection)] == [("ann", "bob")] * 2
    reported = audited(cluster.engine, cluster.id, with_service=True)
    assert [(event.outcome, event.who, event.subject) for event in reported] == [
        ("revoked", "bob", "ann"),
        ("created", "root", "ann"),
    ] * 2
    assert audited(cluster.engine, cluster.id) == []


def test_one_of_two_simultaneous_keys_of_one_name_is_refused(cluster: Cluster) -> None:
    url = cluster.engine.url.render_as_string(hide_password=False).replace("timeout=0.01", "timeout=30")
    engines = [open_engine(url.replace("lock_timeout%3D10ms", "lock_timeout%3D30s")) for _ in range(2)]

    def create(engine: Engine) -> bool:
        try:
            api_keys.create(engine, "ann", new_key(), ROLES, "root", NOW_MS)
        except StoreError:
            return False
        return True

    with ThreadPoolExecutor(2) as both:
        assert sorted(both.map(create, engines)) == [False, True]
    for engine in engines:
        engine.dispose()


def test_texts_of_the_audit_are_printable_and_bounded(cluster: Cluster) -> None:
    audit_events.record(cluster.engine, None, [EVENT._replace(who="a\nb", detail="x" * 5_000)])
    (event,) = audited(cluster.engine, cluster.id, with_service=True)
    assert (event.who, len(event.detail or "")) == ("a\\nb", 1_000)


def test_an_audit_event_of_an_unknown_cluster_belongs_to_the_service(cluster: Cluster) -> None:
    audit_events.record(cluster.engine, "nope", [EVENT])
    with cluster.engine.connect() as connection:
        (name,) = connection.scalars(select(schema.clusters.c.name))
    audit_events.record(cluster.engine, name, [EVENT._replace(who="bob")])
    assert [event.who for event in audited(cluster.engine, cluster.id)] == ["bob"]
    assert [event.who for event in audited(cluster.engine, cluster.id, with_service=True)] == ["bob", "ann"]
    assert [event.who for event in audited(cluster.engine, cluster.id, who="ann", with_service=True)] == ["ann"]


def test_audit_and_mutes_are_kept_for_more_than_a_year(cluster: Cluster) -> None:
    wish = Wish("f", None, None, NOW_MS + 1, "known")
    with cluster.engine.begin() as connection:
        audit_events.add(connection, None, EVENT)
        finding_marks.set_mute(connection, cluster.id, wish, EVENT)
    retention = Retention(cluster.engine, cluster.lease)
    retention.delete_old(NOW_MS + AUDIT_KEPT_MS)
    assert len(audited(cluster.engine, cluster.id, with_service=True)) == 2
    assert len(rows(cluster.engine, schema.mutes, cluster.id)) == 1
    retention.delete_old(NOW_MS + AUDIT_KEPT_MS + 2)
    assert rows(cluster.engine, schema.mutes, cluster.id) == []
    assert audited(cluster.engine, cluster.id, with_service=True) == []


def finding(**more: object) -> Finding:
    (change,) = reconcile({}, RoundResult((observe(Kind.OVERDUE),), frozenset()), NOW_MS, "kafka")
    return change.finding.with_observed(**more)


def test_the_longest_mute_that_matches_a_finding_counts(cluster: Cluster) -> None:
    one = finding()
    name = (one.subject.transactional_id or b"").decode()
    with cluster.engine.begin() as connection:
        for wish in (
            Wish(one.id, None, None, NOW_MS + 5, "its id"),
            Wish(None, name[:1], None, NOW_MS + 9, "a prefix"),
            Wish(None, name + "x", None, NOW_MS + 90, "another prefix"),
            Wish(None, None, "other-*", NOW_MS + 90, "another topic"),
            Wish("other", None, None, NOW_MS + 90, "another finding"),
            Wish(one.id, None, None, NOW_MS, "over when it opened"),
        ):
            finding_marks.set_mute(connection, cluster.id, wish, EVENT)
    with cluster.engine.connect() as connection:
        (muted,) = finding_marks.with_mutes(connection, cluster.id, [one])
        (by_rule,) = finding_marks.with_mutes(connection, cluster.id, [finding(muted_until_ms=NOW_MS + 60)])
        assert finding_marks.with_mutes(connection, cluster.id + 1, [one]) == [one]
        assert finding_marks.with_mutes(connection, cluster.id, []) == []
    assert (muted.observation.muted_until_ms, by_rule.observation.muted_until_ms) == (NOW_MS + 9, NOW_MS + 60)


def test_many_mutes_that_end_earlier_do_not_hide_the_longest(cluster: Cluster) -> None:
    """A finding that has been open for long may have many mutes. The mute that ends last counts, however many other
    mutes there are."""
    one = finding()
    with cluster.engine.begin() as connection:
        for number in range(finding_marks.MOST + 1):
            until_ms = NOW_MS + (90 if number == finding_marks.MOST else 5)
            finding_marks.set_mute(connection, cluster.id, Wish(one.id, None, None, until_ms, "known"), EVENT)
    with cluster.engine.connect() as connection:
        (muted,) = finding_marks.with_mutes(connection, cluster.id, [one])
    assert muted.observation.muted_until_ms == NOW_MS + 90


ATTEMPT = Attempt(NOW_MS, "0123", "ops", MarkerType.COMMIT, "orders", 3, 7, 2, 5, 100, Outcome.BEGUN, None)


def test_attempts_on_a_transaction_come_newest_first(cluster: Cluster) -> None:
    """Several services can record attempts to end the same transaction. No lease is needed to record an attempt."""
    executed = ATTEMPT._replace(at_ms=NOW_MS - 5, outcome=Outcome.UNKNOWN, error="no\nleader")
    others = ATTEMPT._replace(producer_id=8), ATTEMPT._replace(partition=4), ATTEMPT._replace(start_offset=99)
    for attempt in (ATTEMPT, executed, *others):
        audit_events.record_attempt(cluster.engine, cluster.id, attempt)
    with cluster.engine.connect() as connection:
        reported = audit_events.of_subject(connection, cluster.id, "orders", 3, 7, 100)
        assert reported == [executed._replace(error="no\\nleader"), ATTEMPT]
        assert len(audit_events.of_subject(connection, cluster.id, "orders", 3, 7, None)) == 3
        assert audit_events.of_subject(connection, cluster.id + 1, "orders", 3, 7, None) == []


DONE = {word: ATTEMPT._replace(outcome=word) for word in (Outcome.WRITTEN, Outcome.REFUSED, Outcome.UNKNOWN)}
LATER_MS = NOW_MS + audit_events.OUTCOME_WITHIN_MS


@pytest.mark.parametrize(
    ("attempts", "now_ms", "expected"),
    [
        ([], NOW_MS, False),
        ([DONE[Outcome.WRITTEN], ATTEMPT], NOW_MS, True),
        ([DONE[Outcome.REFUSED], ATTEMPT], NOW_MS, False),
        ([DONE[Outcome.UNKNOWN], ATTEMPT], LATER_MS, True),
        ([ATTEMPT], LATER_MS - 1, "under way"),
        ([ATTEMPT], LATER_MS, None),
        ([DONE[Outcome.REFUSED], ATTEMPT, ATTEMPT], LATER_MS - 1, "under way"),
        ([DONE[Outcome.REFUSED], ATTEMPT, ATTEMPT], LATER_MS, None),
        ([DONE[Outcome.REFUSED], DONE[Outcome.WRITTEN], ATTEMPT, ATTEMPT], LATER_MS, True),
    ],
    ids=[
        "nobody tried",
        "written",
        "refused",
        "sent without an answer: the marker may be late",
        "under way",
        "begun, and the service died before or after it sent the marker",
        "one of two attempts is under way",
        "one of two attempts was refused, and the service of the other died",
        "one of two attempts wrote the marker, and the other was refused",
    ],
)
def test_a_marker_is_ours_if_an_attempt_sent_it(
    attempts: list[Attempt], now_ms: int, expected: bool | str | None
) -> None:
    assert audit_events.is_under_way(attempts, True, now_ms) is (expected == "under way")
    if expected != "under way":
        assert audit_events.is_marker_ours(attempts, True) is expected


def test_a_marker_of_the_other_type_is_not_ours() -> None:
    """If the marker that we wrote was a COMMIT, an ABORT marker of the transaction must not be taken for ours."""
    attempts = [DONE[Outcome.WRITTEN], ATTEMPT]
    assert audit_events.is_marker_ours(attempts, False) is False
    assert audit_events.is_marker_ours(attempts, None) is True


def test_an_audit_event_is_logged_in_plain_words() -> None:
    event = AuditEvent(NOW_MS, Action.MUTE, Outcome.SET, "ann\n", "127.0.0.1", "f12", "at work")
    assert str(event) == "mute f12: set, by ann\\n"
    assert str(event._replace(who="", subject=None)) == "mute: set, by an unknown caller"
