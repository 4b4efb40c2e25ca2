"""Tests, for every table, that rows needed by an open finding are kept at any age, and deleted after the end of the
finding."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Table

from service.access.actions import Outcome
from service.domain.findings.event_findings import REMEMBERED_MS
from service.domain.findings.finding import Observation, RoundResult, Subject
from service.domain.findings.kinds import QUIET_MS, Kind, Severity
from service.domain.findings.lifecycle import reconcile
from service.domain.partitions.facts import MarkerType, PartitionsBatch
from service.domain.partitions.open_entries import owner_of
from service.domain.retention_policy import DEFAULT, Keep
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Reject
from service.store import audit_events, schema
from service.store.audit_events import Attempt
from service.store.queries.owners import owners
from service.store.retention import Retention
from service.store.writers.findings import FindingWriter, load
from service.store.writers.partitions import GONE_KEPT_MS, PartitionWriter
from tests.helpers.findings import finding_facts
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, Entry, batch, entry, rows
from tests.service.store.logs import read as span
from tests.service.store.looks import Watched, described, look
from tests.service.store.looks import entry as open_entry
from tests.service.store.query_plans import statements

DAY_MS = 86_400_000
YEARS_LATER_MS = NOW_MS + 1_000 * DAY_MS

NO_FINDING_RESTS_ON = {
    "transitions": "a finding counts an event when the event is read, and needs only the events of one hour",
    "id_minutes": "rates",
    "cluster_minutes": "rates",
    "partition_minutes": "volume",
    "partition_markers": "the partition itself shows how an entry ended",
    "unended_records": "records are compared with decisions within seconds",
    "waiting_decisions": "decisions are compared with markers within seconds; a torn transaction has a row of its own",
    "ended_logs": "a transaction that was open for longer than the retention is not compared any more",
    "waiting_markers": "markers are compared with decisions within seconds; a torn transaction has a row of its own",
    "data_gaps": "a finding about a gap ends after a quarter of an hour; the hidden offsets are in log_partitions",
    "open_participants": "an expired id has no open partitions",
    "left_behind_records": "these rows are deleted together with the row of the expired id",
    "findings": "only findings that have ended are deleted",
    "audit_events": "requests of users",
    "mutes": "only mutes that have ended are deleted",
    "acknowledgements": "an acknowledged finding ends; the audit keeps the acknowledgement for the same time",
}
HELD = {"transactional_ids", "producer_ids", "rejects", "audit"}


class Held(NamedTuple):
    """A case of two similar rows. An open finding of `kind` about `subject` needs one of them.

    `left` returns the value that identifies a row: `kept` for the needed row, `others` for the other row.
    """

    table: Table
    seed: Callable[[Cluster], None]
    subject: Subject
    kind: Kind
    left: Callable[[dict[str, Any]], Any]
    kept: Any
    others: Any


def apply(cluster: Cluster, *entries: Entry) -> None:
    cluster.start({0: 0})
    cluster.writer.apply(batch(entries, span(0, len(entries))), NOW_MS)


def two_expired(cluster: Cluster) -> None:
    """Expires two ids: `pay` with producer id 7, and `old` with producer id 8."""
    apply(
        cluster,
        entry(0, states.COMPLETE_ABORT, at_ms=NOW_MS),
        entry(1, states.COMPLETE_ABORT, b"old", pid=8, at_ms=NOW_MS),
        entry(2, states.EXPIRED, at_ms=NOW_MS),
        entry(3, states.EXPIRED, b"old", at_ms=NOW_MS),
    )


def two_undecodable(cluster: Cluster) -> None:
    """Stores one undecodable record of each of the ids `odd` and `healed`. Only `healed` has a later record."""
    entries = [entry(0, states.UNKNOWN, b"odd"), entry(1, states.UNKNOWN, b"healed"), entry(2, states.EMPTY, b"healed")]
    rejects = [Reject(0, 0, n, "value version 9", name, b"key", b"value") for n, name in enumerate((b"odd", b"healed"))]
    cluster.start({0: 0})
    cluster.writer.apply(batch(entries, span(0, 3))._replace(rejects=tuple(rejects)), NOW_MS)


def two_attempts(cluster: Cluster) -> None:
    with cluster.engine.connect() as connection:
        ids = [finding.id for finding in load(connection, cluster.id, NOW_MS).values()]
    for finding_id in (*ids, "ended"):
        tried = Attempt(NOW_MS, finding_id, "ann", MarkerType.ABORT, "orders", 0, 7, 0, 3, 100, Outcome.REFUSED)
        audit_events.record_attempt(cluster.engine, cluster.id, tried)


ENTRY = Subject("orders", 0, b"pay", 7, 0, 100)
NAMELESS = ENTRY._replace(transactional_id=None)

CASES = {
    "id, by its name": Held(
        schema.transactional_ids,
        two_expired,
        Subject(transactional_id=b"pay"),
        Kind.ADOPTED,
        lambda row: row["transactional_id"],
        b"pay",
        b"old",
    ),
    "id, by its producer id": Held(
        schema.transactional_ids,
        two_expired,
        NAMELESS,
        Kind.HANGING,
        lambda row: row["transactional_id"],
        b"pay",
        b"old",
    ),
    "producer id": Held(schema.producer_ids, two_expired, NAMELESS, Kind.HANGING, lambda row: row["producer_id"], 7, 8),
    "reject": Held(
        schema.rejects,
        two_undecodable,
        Subject(topic="__transaction_state", partition=0),
        Kind.UNDECODABLE,
        lambda row: row["transactional_id"],
        b"odd",
        b"healed",
    ),
    "attempt": Held(
        schema.audit, two_attempts, ENTRY, Kind.HANGING, lambda row: row["finding_id"] != "ended", True, False
    ),
}


def find(cluster: Cluster, kind: Kind, subject: Subject) -> None:
    about = Observation(kind, Severity.CRITICAL, subject, finding_facts(kind), ())
    save(cluster, RoundResult((about,), frozenset({kind})), NOW_MS)


def end(cluster: Cluster, kind: Kind, now_ms: int) -> None:
    save(cluster, RoundResult((), frozenset({kind}), is_log_complete=True), now_ms)


def save(cluster: Cluster, look_: RoundResult, now_ms: int) -> None:
    with cluster.engine.connect() as connection:
        known = load(connection, cluster.id, now_ms)
    FindingWriter(cluster.engine, cluster.lease).save(reconcile(known, look_, now_ms, "kafka"), now_ms)


def forget(cluster: Cluster, now_ms: int = YEARS_LATER_MS) -> None:
    Retention(cluster.engine, cluster.lease).delete_old(now_ms)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rows_that_an_open_finding_needs_are_kept_until_it_has_ended(cluster: Cluster, case: Held) -> None:
    def left() -> set[Any]:
        return {case.left(row) for row in rows(cluster.engine, case.table, cluster.id)}

    find(cluster, case.kind, case.subject)
    case.seed(cluster)
    assert left() >= {case.kept, case.others}
    forget(cluster)
    assert case.kept in left()
    assert case.others not in left()
    end(cluster, case.kind, YEARS_LATER_MS)
    if case.kind == Kind.UNDECODABLE:  # the finding ends with the id's next record
        cluster.writer.apply(batch([entry(3, states.EMPTY, b"odd")], span(3, 4)), YEARS_LATER_MS)
    forget(cluster, YEARS_LATER_MS + 1_000)
    assert case.kept not in left()


def test_every_table_with_retention_is_covered_by_these_tests(cluster: Cluster) -> None:
    """A new table with retention must state which findings need its rows."""
    assert {case.table.name for case in CASES.values()} == HELD
    with statements(cluster.engine) as ran:
        forget(cluster)
    pruned = {found[1] for statement, _ in ran if (found := re.match(r"DELETE\s+FROM\s+(\w+)", statement))}
    assert pruned == HELD | NO_FINDING_RESTS_ON.keys()


def test_events_and_gaps_are_kept_longer_than_their_findings() -> None:
    """Even the shortest retention that a user can set is long enough."""
    shortest = DEFAULT._replace(history=3_600_000, gaps=3_600_000)
    assert shortest.history >= REMEMBERED_MS
    assert shortest.gaps >= QUIET_MS
    assert min(DEFAULT) >= min(shortest)


def test_a_hanging_transaction_keeps_the_complete_row_of_its_owner(cluster: Cluster) -> None:
    """After old rows were deleted, the row of the owner still has its log partition. If the id returns, the judge needs
    the log partition to prove the case again."""
    two_expired(cluster)
    find(cluster, Kind.HANGING, ENTRY)
    forget(cluster)
    watched = Watched(cluster)
    watched.see(look(NOW_MS), described(NOW_MS, open_entry()))
    (shown,) = watched.entries()
    with cluster.engine.connect() as connection:
        owner = owner_of(shown, owners(connection, cluster.id, [7])[7])
    assert owner is not None
    assert (owner.transactional_id, owner.log_partition, owner.record.offset, owner.state) == (
        b"pay",
        0,
        2,
        states.EXPIRED,
    )


def test_an_open_entry_that_is_not_judged_yet_keeps_its_owner(cluster: Cluster) -> None:
    """An unjudged open entry may still become a finding."""
    two_expired(cluster)
    Watched(cluster).see(look(NOW_MS), described(NOW_MS, open_entry(7)))
    forget(cluster)
    for table in (schema.transactional_ids, schema.producer_ids):
        assert {row["transactional_id"] for row in rows(cluster.engine, table, cluster.id)} == {b"pay"}


def test_a_deleted_partition_is_remembered_until_its_findings_have_ended(cluster: Cluster) -> None:
    """The judge has to learn of the deletion, however long that takes."""
    writer = PartitionWriter(cluster.engine, cluster.lease)

    def full(now_ms: int, *partitions: int) -> None:
        looks = tuple(look(now_ms, -1, -1, partition=p, is_gone=True, stalled_since_ms=None) for p in partitions)
        writer.apply(PartitionsBatch(now_ms, looks, is_full=True), now_ms)

    find(cluster, Kind.HANGING, ENTRY)
    full(NOW_MS, 0, 1)
    later_ms = NOW_MS + GONE_KEPT_MS + 1
    full(later_ms)
    assert [row["partition"] for row in rows(cluster.engine, schema.data_partitions, cluster.id)] == [0]
    end(cluster, Kind.HANGING, later_ms)
    full(later_ms + 1)
    assert rows(cluster.engine, schema.data_partitions, cluster.id) == []


def test_rows_kept_for_a_finding_do_not_stop_deletion_of_others(cluster: Cluster) -> None:
    """Retention deletes in small batches. Rows that a finding keeps do not use up a batch."""
    cluster.start({0: 0})
    log = [entry(n, states.COMPLETE_ABORT, b"id-%d" % n, pid=n, at_ms=NOW_MS) for n in range(4)]
    log += [entry(4 + n, states.EXPIRED, b"id-%d" % n, at_ms=NOW_MS + n) for n in range(4)]
    cluster.writer.apply(batch(log, span(0, 8)), NOW_MS)
    for n in (0, 1):
        find(cluster, Kind.ADOPTED, Subject(transactional_id=b"id-%d" % n))
    retention = Retention(cluster.engine, cluster.lease, keep=Keep(), ids_at_once=1)
    assert [retention.delete_old(YEARS_LATER_MS) for _ in range(3)] == [True, True, False]
    left = {row["transactional_id"] for row in rows(cluster.engine, schema.transactional_ids, cluster.id)}
    assert left == {b"id-0", b"id-1"}
