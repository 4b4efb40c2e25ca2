"""A store of a million ids. The real writer stores the ids as at a first read; history and findings are inserted in
bulk."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Connection, Engine, LargeBinary, String, insert, literal, null, select, update

from service.domain.findings.finding import Evidence, Finding, Life, Observation, Subject
from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.domain.findings.lifecycle import Change
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.facts import LogBatch, LogRecord, MinuteSums, Participants, RangeRead, Run
from service.domain.transaction_log.id_delta import MINUTE_MS, IdMinute
from service.domain.transaction_log.states import TOPIC
from service.store import lease, progress, schema
from service.store.backends import backend_of
from service.store.engine import open_engine
from service.store.schema import id_minutes, transactional_ids, transitions
from service.store.writers.findings import FindingWriter
from service.store.writers.history import MINUTES, minute_row
from service.store.writers.transaction_log import TransactionLogWriter
from tests.benchmarks.stores import begun, size_bytes
from tests.helpers.findings import finding_facts

CLUSTER: Final = "bench"
PARTITIONS: Final = 50
PARTITIONS_A_BATCH: Final = 5
OPEN_IDS: Final = 2_000
FINDINGS: Final = 300
APPLICATIONS: Final = 97
TOPICS: Final = ("orders", "payments", "audit")
NOW_MS: Final = 1_790_000_000_000
DAY_MS: Final = 86_400_000
AT_REST: Final = ((states.COMPLETE_COMMIT, 79), (states.COMPLETE_ABORT, 5), (states.EMPTY, 6), (states.EXPIRED, 10))
"""The states of ids without an open transaction, each with its percentage."""

BUSY_IDS: Final = 5
"""Number of ids with commits in every minute of a week, and an abort every hour."""

_LAST_OFFSET: Final = 10_000_000
_HISTORY_EVERY: Final = 5  # of this number of ids, one has aborts and minutes, and another one has only minutes
_ROWS_EACH: Final = 3


class LargeStore(NamedTuple):
    """The ids for which the benchmarks send requests. `producer_ids`: the producer id of each of `ids`, in the same
    order."""

    ids: list[bytes]
    producer_ids: list[int]
    busy: list[bytes]


def fill(url: str, ids: int) -> LargeStore:
    """Fills a database that has no tables, or tables of the newest revision without data."""
    engine = open_engine(url)
    try:
        began = time.perf_counter()
        held = begun(engine, CLUSTER, NOW_MS - DAY_MS, NOW_MS)
        log = _log(ids)
        _write_ids(engine, held, log)
        store = LargeStore(
            [run.transactional_id for runs in log for run in runs],
            [run.last.producer_id for runs in log for run in runs],
            [log[0][number].transactional_id for number in range(BUSY_IDS)],
        )
        written = time.perf_counter()
        while backend_of(engine).extend_text_index(engine):
            pass
        with engine.begin() as connection:
            _add_history(connection)
            for busy in store.busy:
                _add_week(connection, held.cluster_id, busy)
        FindingWriter(engine, held).save([Change(finding, "opened") for finding in _findings(store)], NOW_MS)
        settle(engine)
        ended = time.perf_counter()
        print(
            f"{engine.dialect.name}: {ids:,} ids written in {written - began:.0f} s,"
            f" history and findings in {ended - written:.0f} s, {size_bytes(engine) / 1e6:,.0f} MB",
            flush=True,
        )
        return store
    finally:
        engine.dispose()


@contextmanager
def changing(url: str) -> Iterator[Callable[[], None]]:
    """Yields a function that commits the smallest possible change to the store."""
    engine = open_engine(url)

    def commit() -> None:
        with engine.begin() as connection:
            connection.execute(update(schema.clusters).values(bound_at_ms=schema.clusters.c.bound_at_ms + 1))

    try:
        yield commit
    finally:
        engine.dispose()


def _log(ids: int) -> list[list[Run]]:
    """Returns, for each partition of the log, the runs of a first read: every id once, with scattered producer ids,
    ages and states."""
    rng = random.Random(11)
    open_ids = set(rng.sample(range(ids), min(OPEN_IDS, ids)))
    at_rest = [state for state, share in AT_REST for _ in range(share)]
    log: list[list[Run]] = [[] for _ in range(PARTITIONS)]
    for number, producer_id in enumerate(rng.sample(range(ids * 4), ids)):
        is_open = number in open_ids
        state = rng.choice((states.ONGOING,) * 18 + (2, 3)) if is_open else rng.choice(at_rest)
        changed_ms = NOW_MS - int(2 * DAY_MS * rng.random() ** 8) if is_open else NOW_MS - rng.randrange(7 * DAY_MS)
        partition = rng.randrange(PARTITIONS)
        name = f"application-{number % APPLICATIONS}-worker-{number:07d}".encode()
        topics = TOPICS[number % 2 : None if number % 40 == 0 else number % 2 + 1] if is_open else ()
        log[partition].append(_run(partition, len(log[partition]), name, state, producer_id, changed_ms, topics))
    return log


def _run(
    partition: int, offset: int, name: bytes, state: int, producer_id: int, changed_ms: int, topics: tuple[str, ...]
) -> Run:
    record = LogRecord(
        offset, changed_ms, 1, state, producer_id, offset % 30_000, 60_000, changed_ms, changed_ms, 2, -1, len(topics)
    )
    participants = tuple(Participants(topic, (offset % 10,)) for topic in topics)
    return Run(partition, name, record, record, False, 1, participants, -1, -1, None)


def _write_ids(engine: Engine, held: lease.Lease, log: list[list[Run]]) -> None:
    starts = [progress.PartitionStart(p, "T", 1, 1, 0, len(log[p])) for p in range(PARTITIONS)]
    progress.start_positions(engine, held, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS)
    writer = TransactionLogWriter(engine, held)
    for first in range(0, PARTITIONS, PARTITIONS_A_BATCH):
        some = range(first, first + PARTITIONS_A_BATCH)
        runs = tuple(run for p in some for run in sorted(log[p], key=lambda run: run.transactional_id))
        ranges = (RangeRead(p, "T", 0, 0, n, 1, 1, 0, n, NOW_MS, n, 0, None) for p in some for n in (len(log[p]),))
        writer.apply(LogBatch(tuple(ranges), runs, ()), NOW_MS)


def _add_history(connection: Connection) -> None:
    """Adds aborts of the last hours, and counts of commits by minute. About one of every _HISTORY_EVERY ids gets both,
    and about one more gets only the counts of commits."""
    t = transactional_ids.c
    for number in range(_ROWS_EACH):
        back_ms = t.last_update_ms - number * 3_600_000
        connection.execute(
            insert(transitions).from_select(
                [column.name for column in transitions.c if column.name != "id"],
                select(
                    *(t.cluster_id, t.transactional_id, t.partition, t.generation),
                    *(_LAST_OFFSET + t.offset * _ROWS_EACH - number, back_ms),
                    *(literal(states.ONGOING), literal(states.PREPARE_ABORT), t.producer_id, t.producer_epoch),
                    *(t.timeout_ms, literal(1_200, BigInteger), null(), literal(CauseCode.TIMEOUT, String)),
                    *(literal(Confidence.LIKELY, String), null(), literal(True)),
                ).where(t.producer_id % _HISTORY_EVERY == 0),
            )
        )
        minute_ms = back_ms - back_ms % MINUTE_MS
        connection.execute(
            insert(id_minutes).from_select(
                list(id_minutes.c.keys()),
                select(
                    *(t.cluster_id, t.transactional_id, minute_ms, literal(6, BigInteger)),
                    *(literal(n, BigInteger) for n in (6, 900, 300, 6, 60, 20)),
                    *(minute_ms, minute_ms + 50_000),
                    *(literal(0, BigInteger),) * 5,
                ).where(t.producer_id % _HISTORY_EVERY < 2),
            )
        )


def _add_week(connection: Connection, cluster_id: int, transactional_id: bytes) -> None:
    begin_ms = (NOW_MS - 7 * DAY_MS) // MINUTE_MS * MINUTE_MS
    minutes = range(begin_ms, NOW_MS, MINUTE_MS)
    counted = (50, 50, 9_000, 400, 50, 500, 30)
    rows = [IdMinute(ms, MinuteSums(*counted, ms, ms + 59_000)) for ms in minutes]
    MINUTES.write(connection, [minute_row(cluster_id, transactional_id, row) for row in rows])
    row = connection.execute(
        select(transactional_ids).where(transactional_ids.c.transactional_id == literal(transactional_id, LargeBinary))
    ).one()
    shared = {c.name: row._mapping[c.name] for c in transitions.c if c.name in row._mapping} | {
        "from_state": states.ONGOING,
        "to_state": states.PREPARE_ABORT,
        "duration_ms": 800,
        "cause": CauseCode.CLIENT_ABORT,
        "confidence": Confidence.LIKELY,
        "counted": True,
    }
    first_offset = 2 * _LAST_OFFSET + row.offset * 1_000
    hours = enumerate(range(begin_ms + 30_000, NOW_MS, 3_600_000))
    aborts = [shared | {"offset": first_offset + number, "at_ms": at_ms} for number, at_ms in hours]
    connection.execute(insert(transitions), aborts)


def _findings(store: LargeStore) -> Iterator[Finding]:
    for number in range(FINDINGS):
        kind = tuple(Kind)[number % len(tuple(Kind))]
        opened_ms, is_over = NOW_MS - number * 600_000, number % 3 == 0
        about = Subject(transactional_id=store.ids[number * 37 % len(store.ids)], topic=TOPICS[number % 3])
        observation = Observation(
            kind,
            tuple(Severity)[number % 3],
            about,
            finding_facts(kind),
            tuple(Evidence(opened_ms, f"{TOPIC}-3@{number}", "Ongoing, 60 s timeout") for _ in range(3)),
            log_partition=number % PARTITIONS,
        )
        life = Life(Status.CONFIRMED, opened_ms, opened_ms, NOW_MS, count=1)
        if is_over:
            ended_ms = opened_ms + 300_000
            life = replace(life, status=Status.RESOLVED, resolved_at_ms=ended_ms, resolution=Resolution.HEALED)
        yield Finding(f"{number:016x}", observation, life)


def settle(engine: Engine) -> None:
    """Runs VACUUM ANALYZE if the database is PostgreSQL: autovacuum would run it about a minute later."""
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")
