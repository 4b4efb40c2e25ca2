"""Stores that contain complete scenarios, for the tests of the overview and of related pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.domain.findings.finding import Observation, Occurrence, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from service.domain.transaction_log.states import TOPIC
from service.store import clusters, progress
from service.store.writers.groups import GroupWriter
from tests.helpers.findings import observe
from tests.helpers.partitions import WithPartitions, entry, moving_partition, stalled_partition, unanswered_partition
from tests.helpers.partitions import read as read_of
from tests.helpers.reasons import denied
from tests.helpers.stores import DESCRIPTION, NOW_MS, Id, open_id
from tests.service.store.histories import aborted
from tests.service.store.logs import batch, read
from tests.service.store.logs import entry as logged
from tests.service.web.page_text import PageText, page_of

PAGE = "/clusters/prod-eu"
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
BOOTSTRAP = "b:9092"
DENIED = denied("hr.payroll")


def on(topic: str, partition: int, *entries: Any) -> tuple[Any, Any]:
    """Returns a sample of a partition whose LSO is stalled, and a read of its open entries."""
    return stalled_partition(partition, topic), read_of(*entries, partition=partition)._replace(topic=topic)


def hanging(
    topic: str = "payments", partition: int = 7, name: bytes | None = b"payments-3", producer_id: int = 7, **more: Any
) -> Observation:
    subject = Subject(topic, partition, name, producer_id, 3, 100)
    reported = observe(Kind.HANGING, subject=subject, severity=Severity.CRITICAL, log_partition=None, decision="none")
    return reported._replace(bootstrap=BOOTSTRAP)._replace(**more)


def group(name: str, topic: str, partition: int, offset: int = 100) -> GroupOffset:
    return GroupOffset(name, topic, partition, offset, 2, False)


def wait(cluster: WithPartitions, groups: Iterable[GroupOffset]) -> None:
    GroupWriter(cluster.engine, cluster.lease).replace(list(groups), NOW_MS)


def empty_store(url: str, name: str = "prod-eu", **more: Any) -> WithPartitions:
    """Returns a cluster without ids. Unless `more` sets another start, counting began two hours before NOW_MS. The
    brokers of the cluster are described in the store."""
    cluster = WithPartitions(url, name, **{"started_ms": NOW_MS - 2 * HOUR_MS, "partitions": 1, **more})
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)
    return cluster


def an_hour(cluster: WithPartitions) -> None:
    """Stores an hour of transactions: commits every minute, some aborts by clients, single timeouts, and a burst of
    five timeouts."""
    for ago in range(61, 0, -1):
        number = 10_000 + 2_000 * (ago % 7) + 150 * (60 - ago)
        at_ms = NOW_MS - ago * MINUTE_MS
        cluster.read([Id(b"orders-etl-1", commits=number, timestamp_ms=at_ms, last_update_ms=at_ms)], now_ms=at_ms)
    first = offset = cluster.next_offset()
    reported = []
    for ago in range(59, 1, -2):
        at_ms = NOW_MS - ago * MINUTE_MS
        reported += aborted(offset, at_ms, b"refunds-1")
        offset += 3
        for number in range(5 if ago == 21 else ago % 3 == 0):
            key = b"orders-etl-%d" % number
            start_ms = at_ms - 65_000
            path = ((states.ONGOING, 0, start_ms), (states.PREPARE_ABORT, 1, at_ms), (states.COMPLETE_ABORT, 1, at_ms))
            for state, epoch, when_ms in path:
                reported.append(
                    logged(offset, state, key, pid=50 + number, epoch=epoch + ago * 2, start_ms=start_ms, at_ms=when_ms)
                )
                offset += 1
    cluster.writer.apply(batch(reported, read(first, offset)._replace(leader_epoch=5)), NOW_MS)
    cluster.moved_to(offset)


def tell(url: str, **more: Any) -> WithPartitions:
    """Stores the main scenario: one transaction hangs, one is completing, one is open within its timeout, and some
    partitions are unknown."""
    cluster = empty_store(url)
    an_hour(cluster)
    cluster.read(
        [
            Id(b"payments-3", producer_id=7, producer_epoch=4),
            Id(
                b"settlement-nightly",
                states.ONGOING,
                start_ms=NOW_MS - 552_000,
                last_update_ms=NOW_MS - 552_000,
                producer_id=8,
                timeout_ms=600_000,
                topics=(Participants("settlements", (2,)),),
            ),
            Id(b"ledger-writer-1", states.PREPARE_COMMIT, producer_id=9, topics=(Participants("ledger", (4,)),)),
        ]
    )
    cluster.look(
        *on("payments", 7, entry(7)),
        *on("settlements", 2, entry(8)),
        *on("ledger", 4, entry(9)),
        moving_partition(0),
        moving_partition(1),
        *(unanswered_partition(DENIED, partition, "hr.payroll") for partition in range(6)),
    )
    wait(
        cluster,
        [
            group("settlement", "payments", 7),
            group("fraud-scoring", "payments", 7, 81),
            group("reporting", "settlements", 2),
            group("ledger-view", "ledger", 4),
        ],
    )
    fencing = observe(Kind.FENCING_CONFLICT, b"orders-etl-0")
    fencing = fencing._replace(occurrences=tuple(Occurrence(n, NOW_MS - 1_000 * (15 - n)) for n in range(1, 15)))
    expiring = observe(Kind.EXPIRING, b"refunds-batch", severity=Severity.INFO)
    gap = observe(Kind.COVERAGE_GAP, subject=Subject(topic="hr.payroll"), reason=DENIED)
    cluster.see(hanging(**more), fencing, expiring, gap)
    return cluster


def quiet(cluster: WithPartitions, **more: Any) -> None:
    cluster.read([Id(b"a", commits=600)], now_ms=NOW_MS - 90_000)
    cluster.read([Id(b"a"), open_id("orders-etl-1", 3_200, timeout_ms=60_000)])
    cluster.look(moving_partition(0), moving_partition(1), **more)


def reading_for_the_first_time(url: str, *ids: Id) -> WithPartitions:
    """Stores a first read in progress. The log has four offsets for each id. One record of each id is read, and one
    partition was sampled."""
    cluster = WithPartitions(url, partitions=0)
    with cluster.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE clusters SET counted_since_ms = NULL WHERE id = {cluster.id}")
    starts = [progress.PartitionStart(0, "T", 1, 5, 0, 4 * len(ids))]
    progress.start_positions(cluster.engine, cluster.lease, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS - 60_000)
    cluster._next = {0: 0}
    cluster.look(moving_partition())
    cluster.read(ids, behind=3 * len(ids))
    return cluster


def overview(url: str, later_ms: int = 1_200, path: str = PAGE) -> PageText:
    """Returns the overview, or the page at `path`, as it is `later_ms` after NOW_MS."""
    return page_of(url, path, now_ms=NOW_MS + later_ms)
