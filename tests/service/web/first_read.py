"""A cluster whose coordinators' log is being read for the first time."""

from __future__ import annotations

from service.domain.source_state import SourceName
from service.domain.transaction_log.states import TOPIC
from service.store import progress
from tests.helpers.partitions import WithPartitions, moving_partition
from tests.helpers.stores import NOW_MS, Id


def reading_for_the_first_time(url: str, *ids: Id) -> WithPartitions:
    """Four times as many offsets as ids are in the log; the ids are read, and a partition was looked at."""
    cluster = WithPartitions(url, partitions=0)
    with cluster.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE clusters SET counted_since_ms = NULL WHERE id = {cluster.id}")
    starts = [progress.PartitionStart(0, "T", 1, 5, 0, 4 * len(ids))]
    progress.start_positions(cluster.engine, cluster.lease, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS - 60_000)
    cluster._next = {0: 0}
    cluster.look(moving_partition())
    cluster.read(ids, behind=3 * len(ids))
    return cluster
