"""Records of tailed partitions, on their way from executors to the driver."""

from __future__ import annotations

import pyarrow as pa

from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange, Volume
from service.domain.reasons.reason import Several
from service.domain.reasons.unread import NoBatch, UnresponsiveBroker
from service.domain.transaction_log.facts import Gap, RangeRead
from spark_jobs.fold.ledger import batches_from_rows, markers_to_rows, ranges_to_rows, volumes_to_rows
from spark_jobs.fold.rows import trouble_to_rows

RANGES = tuple(
    TopicRange(topic, RangeRead(p, "id", 1, 2, 9, 1, 2, 0, 2**40, 1_000, 7, 900, Gap(0, 2, "retention") if p else None))
    for topic in ("pay", "orders")
    for p in range(2)
)
VOLUMES = (Volume("pay", 0, 60_000, 5, 2**40, 3, 1, 0), Volume("orders", 1, 0, 0, 0, 0, 0, 1))
MARKER = Marker("pay", 0, 1, 2**40, 2**62, 3, 4, True, 61_000)


def arrived(*rows: pa.RecordBatch) -> LedgerBatch:
    (batch,) = batches_from_rows(pa.Table.from_batches(rows))
    return batch


def test_all_that_executors_tell_arrives() -> None:
    rows = [volumes_to_rows(VOLUMES), markers_to_rows([MARKER]), ranges_to_rows(RANGES)]
    troubles = [
        trouble_to_rows(UnresponsiveBroker(1)),
        trouble_to_rows(NoBatch("pay", 0, 7)),
        trouble_to_rows(UnresponsiveBroker(1)),
    ]
    assert arrived(*rows, *troubles) == LedgerBatch(
        RANGES, VOLUMES, (MARKER,), Several((UnresponsiveBroker(1), NoBatch("pay", 0, 7)))
    )


def test_a_heartbeat_says_that_all_is_well() -> None:
    assert arrived(volumes_to_rows([]), markers_to_rows([]), ranges_to_rows(RANGES)) == LedgerBatch(RANGES)
    assert arrived(ranges_to_rows([])) == LedgerBatch(())


def test_more_markers_than_go_into_one_row() -> None:
    markers = tuple(MARKER._replace(offset=n) for n in range(25_000))
    assert arrived(markers_to_rows(markers)).markers == markers
