"""Tests of applications in the store: the number of ids of each application, totals that never fall, and the
application to which a finding belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from service.domain.application_rules import UNASSIGNED, Assigned
from service.domain.applications import Framework
from service.domain.findings.finding import Finding, RoundResult, Subject
from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import reconcile
from service.domain.retention_policy import Keep
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Gap
from service.store import schema
from service.store.errors import LeaseLost
from service.store.queries import application_inputs, applications, findings
from service.store.queries.applications import ApplicationRow
from service.store.queries.transaction_pages import SORTS, Selection
from service.store.queries.transactions import read_page
from service.store.retention import Retention
from service.store.writers.applications import ApplicationWriter
from service.store.writers.findings import FindingWriter
from tests.helpers.findings import observe
from tests.service.store.conftest import Cluster, only_on, take_over
from tests.service.store.histories import aborted, committed
from tests.service.store.logs import NOW_MS, Entry, batch, entry, rows, transaction
from tests.service.store.logs import read as span
from tests.service.store.query_plans import plans

PAY = Assigned("payments", Framework.UNKNOWN)
SHOP = Assigned("shop", Framework.KAFKA_STREAMS)
DAY_MS = 86_400_000


def apply(cluster: Cluster, entries: Sequence[Entry], lo: int = 0, now_ms: int = NOW_MS, **more: Any) -> None:
    cluster.writer.apply(batch(entries, span(lo, lo + len(entries), **more)), now_ms)


def assign(cluster: Cluster, assigned: Mapping[bytes, Assigned], now_ms: int = NOW_MS) -> None:
    ApplicationWriter(cluster.engine, cluster.lease).assign(assigned, now_ms)


def seen(cluster: Cluster) -> dict[str, ApplicationRow]:
    with cluster.engine.connect() as connection:
        return {application.name: application for application in applications.all_applications(connection, cluster.id)}


def assert_counts_are_right(cluster: Cluster) -> None:
    """Asserts that the stored numbers of ids by application, framework and state equal the numbers of rows of ids."""
    t = schema.transactional_ids.c
    count = (
        select(t.application, t.framework, t.state, func.count())
        .where(t.cluster_id == cluster.id, t.application.is_not(None))
        .group_by(t.application, t.framework, t.state)
    )
    with cluster.engine.connect() as connection:
        counted = {tuple(row) for row in connection.execute(count)}
    stored = rows(cluster.engine, schema.application_states, cluster.id)
    assert {tuple(row.values()) for row in stored if row["ids"]} == counted


def test_ids_count_for_their_application_by_state(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, [entry(0, states.ONGOING, b"a", start_ms=NOW_MS - 5_000), entry(1, states.EMPTY, b"b", pid=8)])
    assign(cluster, {b"a": SHOP, b"b": SHOP})
    application_row = seen(cluster)["shop"]
    assert application_row.states == {states.ONGOING: 1, states.EMPTY: 1}
    assert (application_row.kinds, application_row.ids, application_row.open, application_row.oldest_open_ms) == (
        (Framework.KAFKA_STREAMS,),
        2,
        1,
        NOW_MS - 5_000,
    )
    apply(cluster, transaction(2, b"a", start_ms=NOW_MS - 5_000)[1:], 2)
    application_row = seen(cluster)["shop"]
    assert application_row.states == {states.COMPLETE_COMMIT: 1, states.EMPTY: 1}
    assert (application_row.open, application_row.oldest_open_ms, application_row.commits) == (0, None, 1)


def test_ends_before_the_first_examination_count_once(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, [*committed(0, NOW_MS - 900), *aborted(3, NOW_MS - 500), entry(6, states.EMPTY, at_ms=NOW_MS)])
    assign(cluster, {b"pay": PAY})
    assign(cluster, {b"pay": PAY})
    before = seen(cluster)["payments"]
    assert (before.commits, sum(before.aborts), before.since_ms) == (1, 1, NOW_MS)
    apply(cluster, committed(7, NOW_MS + 900, pid=7), 7)
    assert seen(cluster)["payments"].commits == 2


def test_totals_stay_when_an_id_belongs_to_another_application(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, committed(0, NOW_MS - 900))
    assign(cluster, {b"pay": PAY})
    assign(cluster, {b"pay": SHOP})
    apply(cluster, committed(3, NOW_MS + 900), 3)
    found = seen(cluster)
    assert (found["payments"].commits, found["payments"].ids) == (1, 0)
    assert (found["shop"].commits, found["shop"].ids) == (1, 1)
    assert_counts_are_right(cluster)


def test_an_application_that_is_named_later_has_no_old_failures(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, committed(0, NOW_MS - 900))
    assign(cluster, {b"pay": UNASSIGNED})
    assert seen(cluster) == {}
    assign(cluster, {b"pay": PAY})
    assert (seen(cluster)["payments"].commits, seen(cluster)["payments"].ids) == (0, 1)
    apply(cluster, committed(3, NOW_MS + 900), 3)
    assert seen(cluster)["payments"].commits == 1


def test_totals_stay_when_an_id_expires(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, committed(0, NOW_MS - 900))
    assign(cluster, {b"pay": PAY})
    apply(cluster, [entry(3, states.EXPIRED, at_ms=NOW_MS)], 3)
    assert (seen(cluster)["payments"].commits, seen(cluster)["payments"].ids) == (1, 0)
    assert_counts_are_right(cluster)
    later_ms = NOW_MS + 30 * DAY_MS
    Retention(cluster.engine, cluster.lease, keep=Keep()).delete_old(later_ms)
    assert rows(cluster.engine, schema.transactional_ids, cluster.id) == []
    assert_counts_are_right(cluster)
    assert seen(cluster)["payments"].commits == 1
    ApplicationWriter(cluster.engine, cluster.lease).forget(NOW_MS)
    assert seen(cluster)["payments"].commits == 1
    ApplicationWriter(cluster.engine, cluster.lease).forget(NOW_MS + 1)
    assert seen(cluster) == {}


def test_numbers_are_right_after_a_log_was_replaced(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, [*committed(0, NOW_MS - 900), entry(3, states.EMPTY, b"b", pid=8)])
    assign(cluster, {b"pay": PAY, b"b": PAY})
    gap = Gap(0, 4, "recreated")
    apply(cluster, [entry(0, states.EMPTY, b"b", pid=9)], generation=1, topic_id="U", gap=gap)
    assert seen(cluster)["payments"].states == {states.EXPIRED: 1, states.EMPTY: 1}
    assert_counts_are_right(cluster)


def test_the_application_outlives_every_record_of_its_id(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, [entry(0, states.EMPTY)])
    assign(cluster, {b"pay": PAY})
    apply(cluster, [entry(1, states.ONGOING), entry(2, states.EXPIRED), entry(3, states.EMPTY, pid=8)], 1)
    assert seen(cluster)["payments"].states == {states.EMPTY: 1}


def test_ids_of_a_first_read_are_examined_without_being_new(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, [entry(0, states.EMPTY)])
    with cluster.engine.connect() as connection:
        assert [new_id.display for new_id in application_inputs.new_ids(connection, cluster.id, 10)] == ["pay"]
    assign(cluster, {b"pay": UNASSIGNED})
    with cluster.engine.connect() as connection:
        assert application_inputs.new_ids(connection, cluster.id, 10) == []
        (to_examine,) = application_inputs.ids_after(connection, cluster.id, b"", 10)
    assert (to_examine.display, to_examine.application, to_examine.is_examined) == ("pay", None, True)


def test_a_replaced_driver_assigns_nothing(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, [entry(0, states.EMPTY)])
    take_over(cluster.engine, cluster.id)
    with pytest.raises(LeaseLost):
        assign(cluster, {b"pay": PAY})
    assert seen(cluster) == {}


def found_about(cluster: Cluster, subject: Subject) -> Finding:
    """Stores a finding about the subject. Returns the finding as read from the store."""
    looked = RoundResult((observe(Kind.EXPIRING, subject=subject),), frozenset())
    (change,) = reconcile({}, looked, NOW_MS, "kafka")
    FindingWriter(cluster.engine, cluster.lease).save([change], NOW_MS)
    return stored(cluster, change.finding.id)


def stored(cluster: Cluster, finding_id: str) -> Finding:
    with cluster.engine.connect() as connection:
        found = findings.find(connection, cluster.id, finding_id)
    assert found is not None
    return found


def test_a_finding_has_the_application_of_its_id(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, [entry(0, states.EMPTY)])
    found = found_about(cluster, Subject(transactional_id=b"pay"))
    assert found.application is None
    assign(cluster, {b"pay": PAY})
    assert stored(cluster, found.id).application == "payments"
    assign(cluster, {b"pay": SHOP})
    assert stored(cluster, found.id).application == "shop"
    again = found_about(cluster, Subject(transactional_id=b"pay", topic="orders"))
    assert again.application == "shop"


def test_a_finding_about_a_prefix_has_the_application_of_all_its_ids(cluster: Cluster) -> None:
    cluster.start({0: 0})
    apply(cluster, [entry(n, states.EMPTY, name, pid=n) for n, name in enumerate((b"pay-1", b"pay-2", b"shop-1"))])
    assign(cluster, {b"pay-1": PAY, b"pay-2": PAY, b"shop-1": SHOP})
    assert found_about(cluster, Subject(prefix="pay-")).application == "payments"
    assign(cluster, {b"pay-2": SHOP})
    assert found_about(cluster, Subject(prefix="pay-", topic="orders")).application is None


def test_lists_select_by_application(cluster: Cluster) -> None:
    cluster.start({0: 0})
    ids = [f"id-{n:03d}".encode() for n in range(60)]
    open_ = states.ONGOING
    log = [entry(n, open_ if n % 7 == 0 else states.EMPTY, key, pid=n, start_ms=n + 1) for n, key in enumerate(ids)]
    apply(cluster, log)
    of_shop = set(ids[::3])
    assign(cluster, {key: SHOP if key in of_shop else PAY for key in ids})
    everything = frozenset(states.CODES.values())
    with cluster.engine.connect() as connection:
        for sort in SORTS:
            read, after = set(), None
            while True:
                selection = Selection(everything, application="shop")
                page = read_page(connection, cluster.id, selection, sort, after, 7)
                read |= {row.transactional_id for row in page.rows}
                if (after := page.after) is None:
                    break
            assert read == of_shop
        nothing = Selection(everything, application="nothing\0")
        assert read_page(connection, cluster.id, nothing, "age", None, 7).rows == ()


@only_on("sqlite")
@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda c, i: application_inputs.new_ids(c, i, 10), "ix_transactional_ids_new"),
        (lambda c, i: applications.all_applications(c, i), "COVERING INDEX ix_transactional_ids_open"),
        (
            lambda c, i: read_page(c, i, Selection(frozenset({states.EMPTY}), application="shop"), "age", None, 7),
            "ix_transactional_ids_application",
        ),
    ],
)
def test_reads_of_applications_use_an_index(cluster: Cluster, ask: Callable[..., object], index: str) -> None:
    steps = plans(cluster.engine, lambda connection: ask(connection, cluster.id))
    assert any(index in step for step in steps), steps


def test_names_of_frameworks_that_a_later_version_stored_are_no_error(engine: Engine, cluster: Cluster) -> None:
    with engine.begin() as connection:
        row = {"cluster_id": cluster.id, "application": "x", "framework": "new", "state": states.EMPTY, "ids": 1}
        connection.execute(schema.application_states.insert(), row)
    assert seen(cluster)["x"].kinds == ()
