"""Facts on their way from executors to the driver."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from service.domain.reasons.unread import UnresponsiveBroker
from service.domain.transaction_log.facts import NO_RECORD, Gap, LogBatch, RangeRead, Reject
from spark_jobs.fold.rows import batches_from_rows, folded_to_rows, reads_to_rows, rejects_to_rows, trouble_to_rows
from tests.spark_jobs.fold.test_transaction_log import singles

READS = [
    RangeRead(p, "topic", 0, 0, 9, 1, 2, 0, 9, 1_000, 9, 900, Gap(0, 3, "retention") if p else None) for p in range(3)
]
REJECT = Reject(0, 0, 5, "unknown_value_version", b"id", b"\x00\xff", None)


def a_log(partition: int, ids: int) -> pa.RecordBatch:
    (rows,) = folded_to_rows(singles([(partition, b"id-%d" % n, NO_RECORD) for n in range(ids)]))
    return rows


def arrived(*batches: pa.RecordBatch, at_once: int) -> list[LogBatch]:
    return list(batches_from_rows(pa.Table.from_batches(batches), at_once))


def test_all_that_executors_tell_arrives() -> None:
    (batch,) = arrived(
        trouble_to_rows(UnresponsiveBroker(1)),
        a_log(0, 2),
        rejects_to_rows([REJECT]),
        reads_to_rows(READS),
        at_once=100,
    )
    assert batch.ranges == tuple(READS)
    assert [run.transactional_id for run in batch.runs] == [b"id-0", b"id-1"]
    assert batch.rejects == (REJECT,)
    assert batch.trouble == UnresponsiveBroker(1)


def test_what_does_not_fit_into_memory_at_once_is_cut_behind_whole_ranges() -> None:
    rows = [rows for p in range(3) for rows in (a_log(p, 3), reads_to_rows(READS[p : p + 1]))]
    batches = arrived(*rows, at_once=3)
    assert [[r.partition for r in batch.ranges] for batch in batches] == [[0], [1], [2]]
    assert [{run.partition for run in batch.runs} for batch in batches] == [{0}, {1}, {2}]


def test_more_runs_than_go_into_one_row() -> None:
    (batch,) = arrived(a_log(0, 25_000), reads_to_rows(READS[:1]), at_once=10**6)
    assert len({run.transactional_id for run in batch.runs}) == 25_000
    assert np.all([run.first == NO_RECORD for run in batch.runs])
