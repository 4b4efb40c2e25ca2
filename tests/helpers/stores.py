"""Makes stores for tests. The real writers fill the stores from small logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from fastapi.testclient import TestClient
from sqlalchemy import Engine

from service.app import create_app
from service.domain.reasons.reason import Reason
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import (
    NO_RECORD,
    Gap,
    LogBatch,
    LogRecord,
    Minute,
    Participants,
    RangeRead,
    Run,
    Step,
)
from service.domain.transaction_log.id_delta import sums_of
from service.domain.transaction_log.states import TOPIC
from service.store import clusters, lease, progress
from service.store.engine import open_engine
from service.store.writers.transaction_log import TransactionLogWriter
from tests.helpers.migrated import migrated
from tests.helpers.reasons import reason

NOW_MS = 1_790_000_030_123
"""Time at which the last batch was applied: 14:13:50.123Z. The last whole minute ends at 14:13:00."""

NOW = "2026-09-21T14:13:50.123Z"
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)

DESCRIPTION = {
    "brokers": [{"id": 1, "host": "broker-1", "port": 9092, "newest_metadata_version": 30}],
    "features": {"transaction.version": 2},
    "configs": {"transactional.id.expiration.ms": {"value": "3600000", "source": "broker"}},
}


class Id(NamedTuple):
    """A transactional id and its newest record."""

    id: bytes
    state: int = states.COMPLETE_COMMIT
    start_ms: int = NOW_MS - 60_000
    last_update_ms: int = NOW_MS - 50_000
    timestamp_ms: int = NOW_MS - 50_000
    producer_id: int = 1000
    producer_epoch: int = 3
    timeout_ms: int = 60_000
    previous_producer_id: int = -1
    topics: tuple[Participants, ...] = ()
    commits: int = 0
    aborts: int = 0


class SeededCluster:
    """A cluster in a store. The test holds the cluster's lease. Every call of `read` stores one batch of new records of
    one partition."""

    def __init__(self, url: str, name: str = "orders", partitions: int = 1, started_ms: int = NOW_MS - 600_000) -> None:
        self.url, self.name = url, name
        self.engine: Engine = migrated(open_engine(url))
        self.id = clusters.bind(self.engine, name, f"kafka-{name}", started_ms)
        held = lease.acquire(self.engine, self.id, "driver", started_ms)
        assert held is not None
        self.lease = held
        self.writer = TransactionLogWriter(self.engine, held)
        self._next = dict.fromkeys(range(partitions), 0)
        starts = [progress.PartitionStart(p, "T", 1, 5, 0, 0) for p in range(partitions)]
        progress.start_positions(self.engine, held, SourceName.TRANSACTION_LOG, TOPIC, starts, started_ms)

    def read(
        self,
        ids: Iterable[Id] = (),
        *,
        now_ms: int = NOW_MS,
        partition: int = 0,
        behind: int = 0,
        gap: Gap | None = None,
        trouble: Reason | str | None = None,
    ) -> None:
        """Stores a batch with one record for each id. The partition's log has `behind` more records, which are not
        stored."""
        lo = self._next[partition]
        ids = list(ids)
        runs = [_run(partition, lo + number, one) for number, one in enumerate(ids)]
        hi = lo + len(runs) if gap is None else gap.to_offset + len(runs)
        self._next[partition] = hi
        span = RangeRead(partition, "T", 0, lo, hi, 1, 5, 0, hi + behind, now_ms, len(runs), 100 * len(runs), gap)
        runs.sort(key=lambda run: run.transactional_id)
        reported = [_ends(run, one) for run, one in zip(runs, sorted(ids, key=lambda one: one.id), strict=True)]
        steps = tuple(step for steps, _ in reported for step in steps)
        self.writer.apply(
            LogBatch((span,), tuple(runs), (), reason(trouble), steps, tuple(minute for _, minute in reported)), now_ms
        )

    def next_offset(self, partition: int = 0) -> int:
        """Returns the offset at which the next `read` of the partition begins."""
        return self._next[partition]

    def moved_to(self, offset: int, partition: int = 0) -> None:
        """Sets the offset at which the next `read` begins, for a test that has itself stored a batch up to `offset`."""
        self._next[partition] = offset

    def read_no_log(self) -> None:
        """Stores the batch that comes from a cluster without a transaction log."""
        self.writer.apply(LogBatch((), (), (), None, (), ()), NOW_MS)

    def close(self) -> None:
        self.engine.dispose()


ENDED = {
    states.PREPARE_COMMIT: states.PREPARE_COMMIT,
    states.PREPARE_ABORT: states.PREPARE_ABORT,
    states.COMPLETE_COMMIT: states.PREPARE_COMMIT,
    states.COMPLETE_ABORT: states.PREPARE_ABORT,
}


def _run(partition: int, offset: int, one: Id) -> Run:
    record = LogRecord(
        offset,
        one.timestamp_ms,
        5,
        one.state,
        one.producer_id,
        one.producer_epoch,
        one.timeout_ms,
        one.last_update_ms,
        one.start_ms,
        2,
        one.previous_producer_id,
        sum(len(topic.partitions) for topic in one.topics),
    )
    ended = ENDED.get(one.state, states.PREPARE_COMMIT if one.commits else -1)
    end = (offset, ended, b"as Kafka wrote it") if ended >= 0 else (-1, -1, None)
    return Run(partition, one.id, record, record, True, 1, one.topics, *end)


def _ends(run: Run, one: Id) -> tuple[list[Step], Minute]:
    """Returns the steps and the minute that belong to the run: a step for each abort, with an unknown cause, and the
    minute that counts the commits."""
    aborted = run.last._replace(state=states.COMPLETE_ABORT, offset=-1)
    steps = [Step(run.partition, run.transactional_id, NO_RECORD, aborted)] * one.aborts
    minute_ms = max(one.timestamp_ms, 0) // 60_000 * 60_000
    return steps, Minute(run.partition, run.transactional_id, minute_ms, sums_of(minute_ms, one.commits))


def open_id(name: str | bytes, age_ms: int, *topics: str, state: int = states.ONGOING, **fields: Any) -> Id:
    """Returns an id with a transaction that began `age_ms` before NOW_MS, on partitions 0 and 1 of each topic (by
    default `payments`)."""
    raw = name.encode() if isinstance(name, str) else name
    parts = tuple(Participants(topic, (0, 1)) for topic in topics or ("payments",))
    start_ms = NOW_MS - age_ms
    return Id(raw, state, start_ms=start_ms, last_update_ms=start_ms + 1_000, topics=parts)._replace(**fields)


def mixed_ids(count: int = 500) -> Sequence[Id]:
    """Returns `count` ids in all states. Ages and update times repeat, and some timestamps are impossible. The order by
    name differs from the order by age."""
    cycle = (*sorted(states.PERSISTED), states.EXPIRED, states.UNKNOWN)
    absurd = {11: INT64_MAX, 13: -1, 17: INT64_MIN, 19: INT64_MAX - 5}
    ids = []
    for number in range(count):
        state = cycle[number % len(cycle)]
        ms = absurd.get(number % 23, NOW_MS - (number * 7919 % 40) * 1_000)
        topics = (Participants("payments", (number % 3,)),) if state in states.OPEN else ()
        name = f"app-{number * 7919 % count:05d}".encode()
        ids.append(Id(name, state, start_ms=ms, last_update_ms=ms, producer_id=number, topics=topics))
    return ids


@contextmanager
def client_of(url: str) -> Iterator[TestClient]:
    """Yields a client of the service over the store, at NOW_MS. An exception in the service becomes an answer with
    status 500, as in a real server."""
    with TestClient(create_app(url, "1.2.3", now_ms=lambda: NOW_MS), raise_server_exceptions=False) as client:
        yield client
