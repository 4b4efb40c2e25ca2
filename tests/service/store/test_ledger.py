"""Tests that each record of a tailed partition is counted once. Reads may repeat, a topic may be recreated, and tailing
may end."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange, Volume
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ErrorText
from service.domain.source_state import SourceName
from service.domain.transaction_log.facts import NO_LEADER, Gap, RangeRead
from service.store import progress, schema
from service.store.errors import LeaseLost, OutOfSequence
from service.store.progress import Position, keep_topics
from service.store.queries import clusters
from service.store.queries.partitions import counted_since_ms, read_markers, read_volume, tailed_as_of_ms
from service.store.writers.partitions import LedgerWriter
from tests.helpers.reasons import denied
from tests.service.store.conftest import Cluster, take_over
from tests.service.store.logs import NOW_MS, everything, rows
from tests.service.store.logs import read as span

MINUTE = NOW_MS // 60_000 * 60_000


@pytest.fixture
def writer(cluster: Cluster) -> LedgerWriter:
    return LedgerWriter(cluster.engine, cluster.lease)


def volume(records: int, minute_ms: int = MINUTE, topic: str = "pay", partition: int = 0) -> Volume:
    return Volume(topic, partition, minute_ms, records, 100 * records, records // 2, 1, 0)


def marker(offset: int, generation: int = 0, topic: str = "pay", partition: int = 0) -> Marker:
    return Marker(topic, partition, generation, offset, 7, 3, 1, offset % 2 == 0, NOW_MS)


def batch(*ranges: RangeRead, topic: str = "pay", trouble: Reason | None = None) -> LedgerBatch:
    """Returns a batch in which each range has one record for each offset, and a marker at its last offset. An empty
    range has neither."""
    read_ = [r for r in ranges if r.hi > r.lo]
    return LedgerBatch(
        tuple(TopicRange(topic, r) for r in ranges),
        tuple(volume(r.hi - r.lo, topic=topic, partition=r.partition) for r in read_),
        tuple(marker(r.hi - 1, r.generation, topic, r.partition) for r in read_),
        trouble,
    )


def positions(cluster: Cluster, topic: str = "pay") -> dict[int, Position]:
    with cluster.engine.connect() as connection:
        return progress.positions(connection, cluster.id, SourceName.LEDGER, topic)


def counted(cluster: Cluster, topic: str = "pay", partition: int = 0) -> tuple[int, int]:
    """Returns the number of records and the number of markers."""
    with cluster.engine.connect() as connection:
        volumes = read_volume(connection, cluster.id, topic, partition, 0)
        markers, _ = read_markers(connection, cluster.id, topic, partition, None, 100)
    return sum(volume.records for volume in volumes), len(markers)


def status(cluster: Cluster) -> clusters.StatusRow | None:
    with cluster.engine.connect() as connection:
        return clusters.statuses(connection, cluster.id).get(SourceName.LEDGER)


def test_volumes_of_successive_reads_add_up(cluster: Cluster, writer: LedgerWriter) -> None:
    writer.apply(batch(span(50, 50), span(0, 0, partition=1)), NOW_MS)
    with cluster.engine.connect() as connection:
        assert counted_since_ms(connection, cluster.id, "pay", 0) == MINUTE, (
            "even an empty range records the time from which the partition is tailed"
        )
    writer.apply(batch(span(50, 60), span(0, 4, partition=1)), NOW_MS)
    writer.apply(batch(span(60, 63), span(4, 4, partition=1)), NOW_MS)
    (first, second) = rows(cluster.engine, schema.partition_minutes, cluster.id)
    assert first == {
        "topic": "pay",
        "partition": 0,
        "minute_ms": MINUTE,
        "records": 13,
        "bytes": 1_300,
        "transactional_records": 6,
        "commits": 2,
        "aborts": 0,
    }
    assert (second["partition"], second["records"]) == (1, 4)
    stored = rows(cluster.engine, schema.partition_markers, cluster.id)
    assert [(one["partition"], one["offset"], one["is_commit"]) for one in stored] == [
        (0, 59, False),
        (0, 62, True),
        (1, 3, False),
    ]
    assert {p: (at.next_offset, at.records) for p, at in positions(cluster).items()} == {0: (63, 13), 1: (4, 4)}
    assert status(cluster) == clusters.StatusRow(SourceName.LEDGER, NOW_MS, None)


def test_a_batch_that_is_applied_again_changes_nothing(cluster: Cluster, writer: LedgerWriter) -> None:
    batches = [batch(span(50, 50)), batch(span(50, 60)), batch(span(60, 63))]
    for ledger_batch in batches:
        writer.apply(ledger_batch, NOW_MS)
    before = everything(cluster.engine, cluster.id)
    for ledger_batch in batches[1:]:
        writer.apply(ledger_batch, NOW_MS)
    assert everything(cluster.engine, cluster.id) == before


def test_only_the_new_part_of_a_partly_repeated_batch_counts(cluster: Cluster, writer: LedgerWriter) -> None:
    writer.apply(batch(span(0, 10)), NOW_MS)
    writer.apply(batch(span(0, 10), span(0, 5, partition=1)), NOW_MS)
    assert (counted(cluster), counted(cluster, partition=1)) == ((10, 1), (5, 1))


@pytest.mark.parametrize(
    "wrong",
    [
        batch(span(12, 20)),
        batch(span(5, 20)),
        batch(span(10, 20, topic_id="other")),
        batch(span(10, 12), span(10, 12)),
        batch()._replace(markers=(marker(11),)),
        batch()._replace(volumes=(volume(1),)),
    ],
)
def test_a_batch_with_a_range_out_of_sequence_is_refused_completely(
    cluster: Cluster, writer: LedgerWriter, wrong: LedgerBatch
) -> None:
    writer.apply(batch(span(0, 10)), NOW_MS)
    before = everything(cluster.engine, cluster.id)
    other = batch(span(0, 3), topic="orders")
    both = LedgerBatch(other.ranges + wrong.ranges, other.volumes + wrong.volumes, other.markers + wrong.markers)
    with pytest.raises(OutOfSequence):
        writer.apply(both, NOW_MS)
    assert everything(cluster.engine, cluster.id) == before


def test_a_writer_without_the_lease_writes_nothing(cluster: Cluster, writer: LedgerWriter) -> None:
    assert take_over(cluster.engine, cluster.id) is not None
    with pytest.raises(LeaseLost):
        writer.apply(batch(span(0, 10)), NOW_MS)
    assert (positions(cluster), counted(cluster)) == ({}, (0, 0))


def test_records_deleted_by_retention_are_a_gap_and_reading_continues(cluster: Cluster, writer: LedgerWriter) -> None:
    writer.apply(batch(span(0, 10)), NOW_MS)
    writer.apply(batch(span(10, 40, gap=Gap(10, 30, "retention"))), NOW_MS)
    assert positions(cluster)[0].next_offset == 40
    (gap,) = rows(cluster.engine, schema.data_gaps, cluster.id)
    assert (gap["source"], gap["topic"], gap["from_offset"], gap["to_offset"]) == (SourceName.LEDGER, "pay", 10, 30)


def test_a_recreated_topic_begins_a_generation_and_its_offsets_repeat(cluster: Cluster, writer: LedgerWriter) -> None:
    writer.apply(batch(span(0, 10), span(0, 4, partition=1)), NOW_MS)
    again = span(0, 10, generation=1, topic_id="U", gap=Gap(0, 10, "recreated"))
    gone = RangeRead(1, "U", 1, 0, 0, NO_LEADER, -1, 0, 0, NOW_MS, 0, 0, Gap(0, 4, "recreated"))
    writer.apply(batch(again, gone), NOW_MS)
    assert counted(cluster) == (20, 2)
    with cluster.engine.connect() as connection:
        markers, _ = read_markers(connection, cluster.id, "pay", 0, None, 10)
        assert tailed_as_of_ms(connection, cluster.id, "pay", 1) is None
    assert [(marker.generation, marker.offset) for marker in markers] == [(1, 9), (0, 9)]
    assert positions(cluster).keys() == {0}
    assert positions(cluster)[0].records == 24, "the number of records read never falls"


def test_a_diverged_log_continues_at_the_offset_of_divergence(cluster: Cluster, writer: LedgerWriter) -> None:
    writer.apply(batch(span(0, 10)), NOW_MS)
    writer.apply(batch(span(6, 9, generation=1, gap=Gap(6, 10, "diverged"))), NOW_MS)
    assert counted(cluster) == (13, 2)
    assert (positions(cluster)[0].generation, positions(cluster)[0].next_offset) == (1, 9)


def test_a_topic_that_was_deleted_is_not_tailed_and_its_history_stays(cluster: Cluster, writer: LedgerWriter) -> None:
    writer.apply(batch(span(0, 10)), NOW_MS)
    writer.apply(batch(span(0, 3), topic="zebra"), NOW_MS)
    gone = RangeRead(0, "", 1, 0, 0, NO_LEADER, -1, 0, 0, NOW_MS, 0, 0, None)
    for _ in range(2):
        writer.apply(batch(gone), NOW_MS)
        assert (positions(cluster), counted(cluster)) == ({}, (10, 1))
    assert positions(cluster, "zebra")[0].records == 13, "what was read never falls"
    assert rows(cluster.engine, schema.data_gaps, cluster.id) == []


def test_trouble_is_stored_together_with_readable_ranges(cluster: Cluster, writer: LedgerWriter) -> None:
    writer.apply(batch(span(0, 10)), NOW_MS)
    writer.apply(batch(span(10, 12), trouble=denied("secret")), NOW_MS + 5)
    assert status(cluster) == clusters.StatusRow(SourceName.LEDGER, NOW_MS, denied("secret"))
    assert counted(cluster) == (12, 2)
    writer.report_trouble(ErrorText("broker 1\ndoes not answer"))
    reported = status(cluster)
    assert reported is not None
    assert str(reported.error) == "broker 1 does not answer"


def test_topics_no_longer_tailed_are_forgotten_but_their_counts_stay(
    cluster: Cluster, writer: LedgerWriter, new_cluster: Any
) -> None:
    other = new_cluster()
    LedgerWriter(other.engine, other.lease).apply(batch(span(0, 5)), NOW_MS)
    cluster.start({0: 9})
    for topic in ("orders", "pay"):
        writer.apply(batch(span(0, 10), topic=topic), NOW_MS)
    kept = keep_topics(cluster.engine, cluster.lease, SourceName.LEDGER, lambda topic: topic == "pay")
    assert {topic: {p: at.next_offset for p, at in of.items()} for topic, of in kept.items()} == {"pay": {0: 10}}
    assert (positions(cluster, "orders"), counted(cluster, "orders")) == ({}, (10, 1))
    assert status(cluster) is not None
    assert keep_topics(cluster.engine, cluster.lease, SourceName.LEDGER, lambda _: False) == {}
    assert (positions(cluster), status(cluster)) == ({}, None)
    assert keep_topics(cluster.engine, cluster.lease, SourceName.LEDGER, lambda _: False) == {}, (
        "a second call changes nothing"
    )
    assert cluster.positions()[0].next_offset == 0, "other sources keep their positions"
    assert positions(other)[0].next_offset == 5


def test_pages_of_markers_continue_where_the_last_one_ended(cluster: Cluster, writer: LedgerWriter) -> None:
    writer.apply(batch(span(0, 10))._replace(markers=tuple(marker(n) for n in range(5))), NOW_MS)
    again = batch(span(0, 10, generation=1, topic_id="U", gap=Gap(0, 10, "recreated")))
    writer.apply(again._replace(markers=tuple(marker(n, 1) for n in range(3))), NOW_MS)
    found: list[tuple[int, int]] = []
    after = None
    with cluster.engine.connect() as connection:
        while True:
            page, after = read_markers(connection, cluster.id, "pay", 0, after, 3)
            assert len(page) <= 3
            found += [(marker.generation, marker.offset) for marker in page]
            if after is None:
                break
    assert found == [(1, 2), (1, 1), (1, 0), (0, 4), (0, 3), (0, 2), (0, 1), (0, 0)]
