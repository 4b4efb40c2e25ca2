"""Tests of reading the ends of notable transactions, on every kind of database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, insert

from service.domain.findings.finding import Occurrence, RoundResult, Subject
from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import reconcile
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.store import schema, telemetry
from service.store.queries.ended_transactions import (
    AboutEnd,
    EndedTransaction,
    finding_about,
    numbers_known,
    read_ends,
    read_markers,
)
from service.store.telemetry import TracePosition
from service.store.writers.findings import FindingWriter
from tests.helpers.findings import observe
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.histories import aborted, committed
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read
from tests.service.store.query_plans import plans

ENDED_MS = NOW_MS - 60_000


def written(cluster: Cluster, entries: list[Entry], *, counts: bool = True) -> list[EndedTransaction]:
    """Stores the records. Returns the ended transactions in the store."""
    first = entries[0].record.offset
    cluster.writer.apply(batch(entries, read(first, first + len(entries), counts=counts)), NOW_MS)
    return ends_of(cluster)


def ends_of(cluster: Cluster, after: int = 0, limit: int = 100) -> list[EndedTransaction]:
    with cluster.engine.connect() as connection:
        return list(read_ends(connection, after, numbers_known(connection)[1], limit).ends)


def timed_out(offset: int, key: bytes) -> list[Entry]:
    start_ms = ENDED_MS - 61_000
    return [
        entry(offset, states.ONGOING, key, start_ms=start_ms, at_ms=start_ms),
        entry(offset + 1, states.PREPARE_ABORT, key, start_ms=start_ms, at_ms=ENDED_MS - 10, epoch=1),
        entry(offset + 2, states.COMPLETE_ABORT, key, start_ms=start_ms, at_ms=ENDED_MS, epoch=1),
    ]


def marker(cluster: Cluster, **more: Any) -> dict[str, Any]:
    place = {"cluster_id": cluster.id, "topic": "orders", "partition": 0, "generation": 0, "offset": 9}
    own = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0, "is_commit": False, "at_ms": ENDED_MS - 5}
    return {**place, **own, **more}


def test_aborts_and_slow_commits_are_ends_and_ordinary_commits_are_none(cluster: Cluster) -> None:
    ends = written(
        cluster,
        [
            *committed(0, ENDED_MS, b"plain"),
            *aborted(3, ENDED_MS, b"aborted"),
            *committed(6, ENDED_MS, b"slow", markers_ms=2_000),
        ],
    )
    assert {one.transactional_id: one.cause for one in ends} == {
        b"aborted": CauseCode.CLIENT_ABORT,
        b"slow": CauseCode.COMMIT,
    }
    for end in ends:
        assert end.prepared is not None
        assert end.prepared.duration_ms == 100
        assert end.prepared.offset == end.completed.offset - 1
        assert (end.cluster, end.log_partition) == ("cluster-0", 0)


def test_ends_are_read_in_pages_without_a_gap(cluster: Cluster) -> None:
    written(cluster, [entry for number in range(7) for entry in aborted(3 * number, ENDED_MS, b"pay-%d" % number)])
    found, after, is_all = [], 0, False
    with cluster.engine.connect() as connection:
        newest = numbers_known(connection)[1]
        while not is_all:
            page = read_ends(connection, after, newest, 3)
            found += [end.transactional_id for end in page.ends]
            after, is_all = page.up_to, page.is_all
    assert found == [b"pay-%d" % number for number in range(7)]
    assert after == newest


def test_ends_from_before_the_counting_are_left_out(cluster: Cluster) -> None:
    assert written(cluster, aborted(0, ENDED_MS), counts=False) == []


def test_a_marker_belongs_to_the_end_of_its_producer_epoch_and_time(cluster: Cluster) -> None:
    (end,) = written(cluster, aborted(0, ENDED_MS))
    others: tuple[dict[str, Any], ...] = (
        {"producer_id": 8},
        {"producer_epoch": 1},
        {"is_commit": True},
        {"at_ms": ENDED_MS - 11},
        {"at_ms": ENDED_MS + 1},
        {"topic": "twice", "at_ms": ENDED_MS - 3},
        {"topic": "twice", "at_ms": ENDED_MS - 2},
    )
    with cluster.engine.begin() as connection:
        for number, other in enumerate(others):
            connection.execute(insert(schema.partition_markers).values(marker(cluster, offset=number, **other)))
        connection.execute(insert(schema.partition_markers).values(marker(cluster, offset=99)))
        assert [(marker.topic, marker.offset) for marker in read_markers(connection, end)] == [("orders", 99)]


def test_the_finding_that_counts_an_end_is_found(cluster: Cluster) -> None:
    alone, of_prefix, uncounted = written(
        cluster, [*timed_out(0, b"alone"), *timed_out(3, b"pay-1"), *timed_out(6, b"pay-2")]
    )
    assert alone.prepared_number is not None
    assert of_prefix.prepared_number is not None
    assert alone.cause == CauseCode.TIMEOUT
    seen = [
        observe(Kind.TIMED_OUT, b"alone", occurrences=(Occurrence(alone.prepared_number, ENDED_MS),)),
        observe(
            Kind.TIMED_OUT,
            subject=Subject(prefix="pay-"),
            occurrences=(Occurrence(of_prefix.prepared_number, ENDED_MS),),
        ),
    ]
    changes = reconcile({}, RoundResult(tuple(seen), frozenset({Kind.TIMED_OUT})), NOW_MS, "kafka")
    FindingWriter(cluster.engine, cluster.lease).save(changes, NOW_MS)
    by_subject = {change.finding.subject: change.finding.id for change in changes}
    with cluster.engine.connect() as connection:
        assert finding_about(connection, alone) == AboutEnd(by_subject[seen[0].subject], Kind.TIMED_OUT)
        assert finding_about(connection, of_prefix) == AboutEnd(by_subject[seen[1].subject], Kind.TIMED_OUT)
        assert finding_about(connection, uncounted) is None


@only_on("sqlite")
def test_no_read_scans_the_history_or_the_markers(cluster: Cluster) -> None:
    (end,) = written(cluster, timed_out(0, b"pay"))

    def ask(connection: Connection) -> None:
        numbers_known(connection)
        read_ends(connection, 0, end.number, 100)
        read_markers(connection, end)
        finding_about(connection, end)

    scans = [step for step in plans(cluster.engine, ask) if step.startswith("SCAN") and "CONSTANT ROW" not in step]
    assert scans == []


def test_the_name_of_a_store_stays_and_its_position_moves(cluster: Cluster) -> None:
    written(cluster, aborted(0, ENDED_MS))
    with cluster.engine.begin() as connection:
        name = telemetry.instance_of(connection)
        begun = telemetry.begin_traces(connection)
        assert begun.transition == numbers_known(connection)[1]
        telemetry.move_traces(connection, TracePosition(5, 6))
        assert telemetry.begin_traces(connection) == TracePosition(5, 6)
        connection.execute(delete(schema.transitions))
        telemetry.move_traces(connection, None)
        assert telemetry.begin_traces(connection) == TracePosition(0, 0)
        assert telemetry.instance_of(connection) == name
