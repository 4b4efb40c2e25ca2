"""Tests that executors encode facts of the transaction log, of partitions and of tailed topics as rows. The driver
decodes the rows without loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from service.domain.partitions.facts import FirstBatch, OpenEntry, PartitionObservation, PartitionsBatch, StalledRead
from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange, Volume
from service.domain.reasons.reason import Several
from service.domain.reasons.unjudged import NotAllRead
from service.domain.reasons.unread import NoBatch, NoLeader, PartitionsUnresponsive, UnresponsiveBroker
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_RECORD, Decided, Gap, LogBatch, Participants, RangeRead, Reject
from service.wire.columns import decode
from service.wire.log_columns import Chunk
from spark_jobs.fold import ledger, partitions
from spark_jobs.fold.rows import (
    batches_from_rows,
    folded_to_rows,
    reads_to_rows,
    rejects_to_rows,
    rows_of,
    trouble_to_rows,
)
from spark_jobs.fold.transitions import decisions
from tests.helpers.builders.transaction_log import transition, value
from tests.helpers.reasons import denied
from tests.spark_jobs.fold.test_transaction_log import singles

MANY = 25_000
"""A number of facts that is too large for one row."""
RETENTION = Gap(0, 3, "retention")
READS = [RangeRead(p, "topic", 1, 0, 9, 1, 2, 0, 2**40, 1_000, 9, 900, RETENTION if p else None) for p in range(3)]
REJECT = Reject(0, 0, 5, "unknown_value_version", b"id", b"\x00\xff", None)
OBSERVATIONS = (
    PartitionObservation("orders", 0, "id", 1, 7, 3, 10, 12, 5_000, 4_000, None, False, "[]"),
    PartitionObservation("orders", 1, "id", -1, 7, -1, -1, -1, 5_000, None, NoLeader()),
    PartitionObservation("pay", 0, "old", 1, 0, -1, -1, -1, 5_000, None, None, True),
)
FIRST = FirstBatch(10, 2**40, 3, True, False, 100, 200)
ENTRIES = (OpenEntry(2**40, 3, 10, -1, 200, 2, 140), OpenEntry(4, 0, 11, 5, -1))
STALLED = (
    StalledRead("orders", 0, "id", 10, 5_100, FIRST, True, ENTRIES, True, 140),
    StalledRead("pay", 0, "id", 10, 5_100, None, False, (), why=NotAllRead(denied("pay"))),
)
RANGES = tuple(TopicRange(topic, read) for topic in ("pay", "orders") for read in READS[:2])
VOLUMES = (Volume("pay", 0, 60_000, 5, 2**40, 3, 1, 0), Volume("orders", 1, 0, 0, 0, 0, 0, 1))
MARKER = Marker("pay", 0, 1, 2**40, 2**62, 3, 4, True, 61_000)


def arrived(rows: Sequence[pa.RecordBatch], read: Callable[[pa.Table], Iterator[Any]]) -> Any:
    """Returns the single batch that the driver decodes from the rows."""
    (batch,) = read(pa.Table.from_batches(rows))
    return batch


def of_log(*rows: pa.RecordBatch, at_once: int) -> list[LogBatch]:
    return list(batches_from_rows(pa.Table.from_batches(rows), at_once))


def of_partitions(*rows: pa.RecordBatch) -> PartitionsBatch:
    found: PartitionsBatch = arrived(rows, partitions.batches_from_rows)
    return found


def of_topics(*rows: pa.RecordBatch) -> LedgerBatch:
    found: LedgerBatch = arrived(rows, ledger.batches_from_rows)
    return found


def a_log(partition: int, ids: int) -> pa.RecordBatch:
    (rows,) = folded_to_rows(singles([(partition, b"id-%d" % n, NO_RECORD) for n in range(ids)]))
    return rows


def test_a_batch_of_the_transaction_log_survives_the_round_trip() -> None:
    trouble, rejects = trouble_to_rows(UnresponsiveBroker(1)), rejects_to_rows([REJECT])
    (batch,) = of_log(trouble, a_log(0, 2), rejects, reads_to_rows(READS), at_once=100)
    assert batch.ranges == tuple(READS)
    assert [run.transactional_id for run in batch.runs] == [b"id-0", b"id-1"]
    assert batch.rejects == (REJECT,)
    assert batch.trouble == UnresponsiveBroker(1)


def test_rows_that_exceed_memory_are_split_between_whole_ranges() -> None:
    rows = [rows for p in range(3) for rows in (a_log(p, 3), reads_to_rows(READS[p : p + 1]))]
    batches = of_log(*rows, at_once=3)
    assert [[r.partition for r in batch.ranges] for batch in batches] == [[0], [1], [2]]
    assert [{run.partition for run in batch.runs} for batch in batches] == [{0}, {1}, {2}]


def test_more_runs_than_fit_into_one_row_arrive() -> None:
    (batch,) = of_log(a_log(0, MANY), reads_to_rows(READS[:1]), at_once=10**6)
    assert len({run.transactional_id for run in batch.runs}) == MANY
    assert np.all([run.first == NO_RECORD for run in batch.runs])


def test_each_decision_with_its_partitions_arrives_and_no_other_record() -> None:
    places, of_open = [("orders", [0, 3]), ("pay", [1])], (states.ONGOING, states.PREPARE_COMMIT, states.PREPARE_ABORT)
    log = b"".join(
        transition(b"pay", n, timestamp_ms=n, data=value(status=state, topics=places if state in of_open else None))
        for n, state in enumerate((0, 1, 2, 4, 1, 3, 5))
    )
    columns = decode([Chunk(2, 0, 9, log)])
    rows = [rows_of("decided", decisions(columns, {2})), rows_of("decided", decisions(columns, {1}))]
    found = arrived([*rows, reads_to_rows([READS[2]])], batches_from_rows)
    participants = (Participants("orders", (0, 3)), Participants("pay", (1,)))
    assert [one._replace(start_ms=0) for one in found.decided] == [
        Decided(2, offset, b"pay", state, 4001, 7, 0, offset, participants)
        for offset, state in ((2, states.PREPARE_COMMIT), (5, states.PREPARE_ABORT))
    ]


def test_samples_and_reads_of_partitions_survive_the_round_trip() -> None:
    trouble = PartitionsUnresponsive(1, 3, ((NoLeader(), 1),))
    seen = PartitionsBatch(5_000, OBSERVATIONS, (), True, 4, trouble)
    reads = [partitions.reads_to_rows(STALLED[:1]), partitions.reads_to_rows(STALLED[1:])]
    assert of_partitions(*partitions.seen_to_rows(seen), *reads) == seen._replace(reads=STALLED)


def test_a_sample_without_changes_is_an_empty_batch() -> None:
    seen = PartitionsBatch(5_000)
    assert of_partitions(*partitions.seen_to_rows(seen), partitions.reads_to_rows([])) == seen


def test_more_observations_than_fit_into_one_row_arrive() -> None:
    observations = tuple(replace(OBSERVATIONS[0], partition=p) for p in range(MANY))
    batch = of_partitions(*partitions.seen_to_rows(PartitionsBatch(5_000, observations)))
    assert batch.observations == observations


def test_a_batch_of_tailed_topics_survives_the_round_trip() -> None:
    rows = [
        ledger.facts_to_rows("volume", VOLUMES),
        ledger.facts_to_rows("marker", [MARKER]),
        ledger.ranges_to_rows(RANGES),
    ]
    no_batch = NoBatch("pay", 0, 7)
    troubles = [trouble_to_rows(one) for one in (UnresponsiveBroker(1), no_batch, UnresponsiveBroker(1))]
    expected = LedgerBatch(RANGES, VOLUMES, (MARKER,), Several((UnresponsiveBroker(1), no_batch)))
    assert of_topics(*rows, *troubles) == expected


def test_a_heartbeat_of_tailed_topics_has_no_trouble() -> None:
    rows = [ledger.facts_to_rows("volume", []), ledger.facts_to_rows("marker", []), ledger.ranges_to_rows(RANGES)]
    assert of_topics(*rows) == LedgerBatch(RANGES)
    assert of_topics(ledger.ranges_to_rows([])) == LedgerBatch(())


def test_more_markers_than_fit_into_one_row_arrive() -> None:
    markers = tuple(MARKER._replace(offset=n) for n in range(MANY))
    assert of_topics(ledger.facts_to_rows("marker", markers)).markers == markers
