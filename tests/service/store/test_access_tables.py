"""Keys, the audit and mutes on both databases: what is stored, what is not, and how long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select

from service.access.actions import Action, Outcome
from service.access.keys import digest_of, new_key
from service.access.principal import parse_grants
from service.domain.findings.finding import Finding, RoundResult
from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import reconcile
from service.store import api_keys, audit_events, mutes, schema
from service.store.audit_events import AuditEvent, AuditSelection
from service.store.engine import open_engine
from service.store.errors import StoreError
from service.store.mutes import Wish
from service.store.retention import AUDIT_KEPT_MS, Retention
from tests.helpers.findings import observe
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS

ROLES = parse_grants(["viewer", "operator@a b"])
EVENT = AuditEvent(NOW_MS, Action.MUTE, Outcome.SET, "ann", "10.0.0.1", "", "why")


def audited(engine: Engine, cluster_id: int, **selection: object) -> list[AuditEvent]:
    with engine.connect() as connection:
        rows = audit_events.read_page(connection, cluster_id, AuditSelection(**selection), None, 200)  # type: ignore[arg-type]
    return [row.event for row in rows]


def test_of_a_key_only_its_digest_is_stored(cluster: Cluster) -> None:
    key = new_key()
    api_keys.create(cluster.engine, "ann", key, ROLES, "root", NOW_MS)
    with cluster.engine.connect() as connection:
        (row,) = connection.execute(select(schema.api_keys)).all()
        (valid,) = api_keys.read_valid(connection)
    assert not [value for value in row if key in str(value)]
    assert (valid.name, valid.digest, valid.grants) == ("ann", digest_of(key), ROLES)


def test_a_name_has_one_valid_key_and_keeps_its_past(cluster: Cluster) -> None:
    for _ in range(2):
        api_keys.create(cluster.engine, "ann", new_key(), ROLES, "root", NOW_MS)
        with pytest.raises(StoreError, match="there is a key 'ann' already"):
            api_keys.create(cluster.engine, "ann", new_key(), ROLES, "root", NOW_MS)
        api_keys.revoke(cluster.engine, "ann", "bob", NOW_MS + 1)
    with pytest.raises(StoreError, match="there is no valid key 'ann'"):
        api_keys.revoke(cluster.engine, "ann", "bob", NOW_MS)
    with cluster.engine.connect() as connection:
        assert api_keys.read_valid(connection) == []
        assert [(one.name, one.revoked_by) for one in api_keys.read_all(connection)] == [("ann", "bob")] * 2
    reported = audited(cluster.engine, cluster.id, with_service=True)
    assert [(one.outcome, one.who, one.subject) for one in reported] == [
        ("revoked", "bob", "ann"),
        ("created", "root", "ann"),
    ] * 2
    assert audited(cluster.engine, cluster.id) == []


def test_of_two_keys_of_one_name_at_once_one_is_refused(cluster: Cluster) -> None:
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


def test_texts_of_the_audit_print_and_have_an_end(cluster: Cluster) -> None:
    audit_events.record(cluster.engine, None, [EVENT._replace(who="a\nb", detail="x" * 5_000)])
    (one,) = audited(cluster.engine, cluster.id, with_service=True)
    assert (one.who, len(one.detail or "")) == ("a\\nb", 1_000)


def test_a_cluster_that_nobody_knows_is_none(cluster: Cluster) -> None:
    audit_events.record(cluster.engine, "nope", [EVENT])
    with cluster.engine.connect() as connection:
        (name,) = connection.scalars(select(schema.clusters.c.name))
    audit_events.record(cluster.engine, name, [EVENT._replace(who="bob")])
    assert [one.who for one in audited(cluster.engine, cluster.id)] == ["bob"]
    assert [one.who for one in audited(cluster.engine, cluster.id, with_service=True)] == ["bob", "ann"]
    assert [one.who for one in audited(cluster.engine, cluster.id, who="ann", with_service=True)] == ["ann"]


def test_all_of_it_is_kept_for_more_than_a_year(cluster: Cluster) -> None:
    wish = Wish("f", None, None, NOW_MS + 1, "known")
    with cluster.engine.begin() as connection:
        audit_events.add(connection, None, EVENT)
        mutes.set_mute(connection, cluster.id, wish, EVENT)
    retention = Retention(cluster.engine, cluster.lease)
    assert retention.delete_old(NOW_MS + AUDIT_KEPT_MS).audit == 0
    assert retention.delete_old(NOW_MS + AUDIT_KEPT_MS + 2).audit == 3
    assert audited(cluster.engine, cluster.id, with_service=True) == []


def finding(**more: object) -> Finding:
    (change,) = reconcile({}, RoundResult((observe(Kind.OVERDUE),), frozenset()), NOW_MS, "kafka")
    return change.finding.with_observed(**more)


def test_the_longest_mute_that_is_for_a_finding_counts(cluster: Cluster) -> None:
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
            mutes.set_mute(connection, cluster.id, wish, EVENT)
    with cluster.engine.connect() as connection:
        (muted,) = mutes.with_mutes(connection, cluster.id, [one])
        (by_rule,) = mutes.with_mutes(connection, cluster.id, [finding(muted_until_ms=NOW_MS + 60)])
        assert mutes.with_mutes(connection, cluster.id + 1, [one]) == [one]
        assert mutes.with_mutes(connection, cluster.id, []) == []
    assert (muted.observation.muted_until_ms, by_rule.observation.muted_until_ms) == (NOW_MS + 9, NOW_MS + 60)
