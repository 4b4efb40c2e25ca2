"""Measures the comparison of markers with decisions: `python -m tests.benchmarks.marker_audit [TRANSACTIONS [STORE]]`.

TRANSACTIONS is 100,000 by default. Each transaction writes to two partitions. Half of the transactions use the old
protocol. STORE is as for `store_write`.
"""

from __future__ import annotations

import sys
import time

from sqlalchemy import Engine

from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange
from service.domain.partitions.marker_audit import Result
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Decided, LogBatch, LogRecord, Participants, RangeRead, Run
from service.domain.transaction_log.states import TOPIC
from service.store import progress
from service.store.engine import open_reader
from service.store.writers.marker_audit import MarkerAuditWriter
from service.store.writers.partitions import LedgerWriter
from service.store.writers.transaction_log import TransactionLogWriter
from spark_jobs.judge.marker_audit import MarkerAuditor
from tests.benchmarks.stores import begun, opened

NOW_MS = 1_790_000_000_000
PRODUCERS = 200
A_BATCH = 1_000
PLACES = (Participants("orders", (0, 1)),)


def main(transactions: int, store: str = "sqlite") -> None:
    with opened(store) as engine:
        reader = open_reader(engine.url.render_as_string(hide_password=False))
        for audited in (False, True):
            _measure(engine, reader, transactions, audited=audited)
        reader.dispose()


def _measure(engine: Engine, reader: Engine, transactions: int, *, audited: bool) -> None:
    held = begun(engine, f"audited-{audited}", NOW_MS, NOW_MS)
    progress.start_positions(
        engine, held, SourceName.TRANSACTION_LOG, TOPIC, [progress.PartitionStart(0, "T", 0, 0, 0, 0)], NOW_MS
    )
    log = TransactionLogWriter(engine, held, audited=(lambda topic: topic == "orders") if audited else None)
    ledger = LedgerWriter(engine, held)
    auditor = MarkerAuditor(reader, MarkerAuditWriter(engine, held), held.cluster_id)
    now_ms, offset, found = NOW_MS, 0, 0
    writing = auditing = 0.0
    most = 0.0
    for batch in range(-4, transactions // A_BATCH + 5):
        is_data = 0 <= batch < transactions // A_BATCH
        count = A_BATCH if is_data else 0
        began = time.process_time()
        log.apply(_log_batch(batch, offset, count, now_ms + 100), now_ms + 150)
        ledger.apply(_ledger_batch(batch, offset, count, now_ms + 200), now_ms + 250)
        between = time.process_time()
        if audited:
            results = auditor.audit(now_ms + 300)
            assert not results.keys() - {Result.WHOLE}, results
            found += results[Result.WHOLE]
        took = time.process_time() - between
        writing, auditing, most = writing + between - began, auditing + took, max(most, took)
        offset += 3 * count
        now_ms += 1_000
    assert not audited or found == transactions
    per_million = 1_000_000 / (2 * transactions)
    print(
        f"{'with' if audited else 'without'} the audit: {2 * transactions:,} markers;"
        f" {writing * per_million:6.1f} s of CPU to store, {auditing * per_million:6.1f} s to compare a million;"
        f" longest comparison {most * 1000:.0f} ms"
    )


def _range(partition: int, lo: int, hi: int, asked_ms: int) -> RangeRead:
    return RangeRead(partition, "T", 0, lo, hi, 1, 0, 0, hi, asked_ms, hi - lo, 100 * (hi - lo), None)


def _log_batch(batch: int, offset: int, count: int, asked_ms: int) -> LogBatch:
    runs: dict[bytes, Run] = {}
    decided = []
    for n in range(count):
        producer, epoch, commit = _transaction(batch, n)
        key, at = b"id-%d" % producer, offset + 3 * n
        state = states.PREPARE_COMMIT if commit else states.PREPARE_ABORT
        done = states.COMPLETE_COMMIT if commit else states.COMPLETE_ABORT
        first, last = (
            LogRecord(where, asked_ms, 0, one, producer, epoch, 60_000, asked_ms, asked_ms - 50, 0, -1, 0)
            for where, one in ((at, states.ONGOING), (at + 2, done))
        )
        before = runs.get(key)
        records = 3 if before is None else before.records + 3
        runs[key] = Run(0, key, first if before is None else before.first, last, False, records, (), -1, -1, None)
        decided.append(Decided(0, at + 1, key, state, producer, epoch, asked_ms - 50 + n, asked_ms, PLACES))
    ranges = (_range(0, offset, offset + 3 * count, asked_ms),)
    return LogBatch(ranges, tuple(runs[key] for key in sorted(runs)), (), decided=tuple(decided))


def _ledger_batch(batch: int, offset: int, count: int, asked_ms: int) -> LedgerBatch:
    markers = []
    for n in range(count):
        producer, epoch, commit = _transaction(batch, n)
        at = offset + 3 * n + 2
        markers += [Marker("orders", p, 0, at, producer, epoch, 0, commit, asked_ms, at - 2) for p in (0, 1)]
    ranges = tuple(TopicRange("orders", _range(p, offset, offset + 3 * count, asked_ms)) for p in (0, 1))
    return LedgerBatch(ranges, (), tuple(markers))


def _transaction(batch: int, n: int) -> tuple[int, int, bool]:
    """Returns (producer id, epoch, True if the transaction commits). With an odd producer id, each end raises the
    epoch, as under TV2."""
    producer = n % PRODUCERS
    number = batch * (A_BATCH // PRODUCERS) + n // PRODUCERS
    return producer, number % 30_000 if producer % 2 else 0, n % 7 != 0


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, *sys.argv[2:3])
