"""Transactional ids in their present state: the times at which the open transaction times out and the id expires, and
the coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.transaction_log import states
from service.domain.transaction_log.coordinator_partition import coordinator_partition, is_left_behind, partition_count
from service.domain.transaction_log.deadlines import expires_at_ms, times_out_at_ms
from service.domain.transaction_log.id_delta import Aborts
from service.store.queries import transactions
from service.store.queries.clusters import ClusterRow, LogPartitionRow, coordinators
from service.store.rows.ids import IdRow
from service.views.transactions.spans import waiting_abort_ms

_OUTCOMES: Final = {
    states.PREPARE_COMMIT: "commit",
    states.COMPLETE_COMMIT: "commit",
    states.PREPARE_ABORT: "abort",
    states.COMPLETE_ABORT: "abort",
}


class DescribedId(NamedTuple):
    """An id.

    - `partitions`: the (topic, partition) pairs of the id's open transaction.
    - `log_partition`: the partition of `__transaction_state` in which the coordinator looks for the id.
    - `coordinator`: the last known state of that partition; None if the state is not known.
    - `times_out_ms`, `expires_ms`: when the transaction times out, and when the id expires; None if that will not
      happen, or if the time is not known.
    """

    row: IdRow
    partitions: Sequence[tuple[str, int]]
    log_partition: int
    coordinator: LogPartitionRow | None
    times_out_ms: int | None
    expires_ms: int | None

    @property
    def outcome(self) -> str | None:
        """Returns the outcome of the id's last decided transaction, "commit" or "abort"; None before the first
        decision. Transactions without partitions do not count."""
        return None if self.row.last_outcome is None else _OUTCOMES[self.row.last_outcome]

    @property
    def aborts(self) -> Aborts:
        """Returns how often transactions of the id were aborted, by cause. An abort whose cause depends on the id's
        next record counts as unattributed."""
        aborts = self.row.aborts
        return aborts if waiting_abort_ms(self.row) is None else aborts.plus({"unattributed": 1})


def read_described(connection: Connection, cluster: ClusterRow, rows: Sequence[IdRow]) -> list[DescribedId]:
    """Returns the ids of `rows`, in the same order."""
    open_ids = [row.transactional_id for row in rows if row.state in states.OPEN]
    partitions = transactions.participants(connection, cluster.id, open_ids) if open_ids else {}
    log = coordinators(connection, cluster.id)
    count = partition_count(log, (log_partition_row.topic_partitions for log_partition_row in log.values()))
    found = []
    for row in rows:
        place, times_out_ms = row.partition, times_out_at_ms(row.state, row.started_at_ms, row.timeout_ms)
        if is_left_behind(row.transactional_id, row.partition, count):  # no coordinator times it out there
            place, times_out_ms = coordinator_partition(row.transactional_id, count) or 0, None
        expires_ms = expires_at_ms(row.state, row.record.last_update_ms, cluster.expiration_ms)
        places = partitions.get(row.transactional_id, ())
        found.append(DescribedId(row, places, place, log.get(place), times_out_ms, expires_ms))
    return found
