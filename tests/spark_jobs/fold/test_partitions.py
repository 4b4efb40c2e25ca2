"""Samples and reads of partitions, on their way from executors to the driver."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from service.domain.partitions.facts import FirstBatch, OpenEntry, PartitionObservation, PartitionsBatch, StalledRead
from service.domain.reasons.unjudged import NotAllRead
from service.domain.reasons.unread import NoLeader, PartitionsUnresponsive
from spark_jobs.fold.partitions import batches_from_rows, reads_to_rows, seen_to_rows
from tests.helpers.reasons import denied

LOOKS = (
    PartitionObservation("orders", 0, "id", 1, 7, 3, 10, 12, 5_000, 4_000, None, False, "[]"),
    PartitionObservation("orders", 1, "id", -1, 7, -1, -1, -1, 5_000, None, NoLeader()),
    PartitionObservation("pay", 0, "old", 1, 0, -1, -1, -1, 5_000, None, None, True),
)
READS = (
    StalledRead(
        "orders",
        0,
        "id",
        10,
        5_100,
        FirstBatch(10, 2**40, 3, True, False, 100, 200),
        True,
        (OpenEntry(2**40, 3, 10, -1, 200, 2, 140), OpenEntry(4, 0, 11, 5, -1)),
        True,
        140,
    ),
    StalledRead("pay", 0, "id", 10, 5_100, None, False, (), why=NotAllRead(denied("pay"))),
)


def arrived(*rows: pa.RecordBatch) -> list[PartitionsBatch]:
    return list(batches_from_rows(pa.Table.from_batches(rows)))


def test_all_that_was_seen_and_read_arrives() -> None:
    seen = PartitionsBatch(5_000, LOOKS, (), True, 4, PartitionsUnresponsive(1, 3, ((NoLeader(), 1),)))
    rows = [*seen_to_rows(seen), reads_to_rows(READS[:1]), reads_to_rows(READS[1:])]
    assert arrived(*rows) == [seen._replace(reads=READS)]


def test_a_sample_without_news_says_so() -> None:
    seen = PartitionsBatch(5_000)
    assert arrived(*seen_to_rows(seen), reads_to_rows([])) == [seen]


def test_more_looks_than_go_into_one_row() -> None:
    looks = tuple(replace(LOOKS[0], partition=p) for p in range(25_000))
    (batch,) = arrived(*seen_to_rows(PartitionsBatch(5_000, looks)))
    assert batch.observations == looks
