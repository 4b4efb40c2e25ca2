"""One Transaction as the API shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from service.api.http.fields import id_b64, id_text, text_of_time, time_field, transaction_link
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_ID
from service.domain.transaction_log.states import SOURCE, expires_at_ms, times_out_at_ms
from service.store.queries import clusters, transactions
from service.store.queries.clusters import ClusterRow, PartitionRow
from service.store.rows.ids import IdRow

CAUSES: Final = ("client", "timeout", "fenced", "admin", "unattributed")

_OUTCOMES: Final = {
    states.PREPARE_COMMIT: "commit",
    states.COMPLETE_COMMIT: "commit",
    states.PREPARE_ABORT: "abort",
    states.COMPLETE_ABORT: "abort",
}


class Surroundings(NamedTuple):
    """The values that all rows of a cluster share. `coordinators`: by partition of `__transaction_state`."""

    cluster: ClusterRow
    coordinators: dict[int, PartitionRow]


def read_surroundings(connection: Connection, cluster: ClusterRow) -> Surroundings:
    return Surroundings(cluster, {row.partition: row for row in clusters.partitions(connection, cluster.id, SOURCE)})


def describe_page(connection: Connection, cluster: ClusterRow, rows: Sequence[IdRow]) -> list[dict[str, Any]]:
    """Returns the Transaction of each row."""
    open_ids = [row.transactional_id for row in rows if row.state in states.OPEN]
    participants = transactions.participants(connection, cluster.id, open_ids) if open_ids else {}
    surroundings = read_surroundings(connection, cluster)
    return [describe_transaction(row, participants.get(row.transactional_id, ()), surroundings) for row in rows]


def describe_transaction(
    row: IdRow, participants: Sequence[tuple[str, int]], surroundings: Surroundings
) -> dict[str, Any]:
    """Returns the Transaction of the API. `participants`: (topic, partition) of the open transaction."""
    cluster = surroundings.cluster
    times_out_ms = times_out_at_ms(row.state, row.started_at_ms, row.timeout_ms)
    expires_ms = expires_at_ms(row.state, row.last_update_ms, cluster.expiration_ms)
    return {
        "transactional_id": id_text(row.transactional_id),
        "state": states.NAMES[row.state],
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "timeout_ms": row.timeout_ms,
        **time_field("started_at", row.started_at_ms),
        **time_field("last_updated_at", row.last_update_ms),
        **time_field("state_since", row.state_since_ms),
        **time_field("times_out_at", times_out_ms),
        **time_field("expires_at", expires_ms),
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in participants],
        "coordinator": _coordinator(row, surroundings.coordinators.get(row.partition)),
        "client_transaction_version": row.client_transaction_version,
        "previous_producer_id": None if row.previous_producer_id == NO_ID else row.previous_producer_id,
        "last_outcome": None if row.last_outcome is None else _OUTCOMES[row.last_outcome],
        "counts": {
            "since": text_of_time(cluster.counted_since_ms),
            "commits": row.commits,
            "aborts": _aborts(row),
        },
        "transactional_id_b64": id_b64(row.transactional_id),
        "href": transaction_link(cluster.name, row.transactional_id),
    }


def _coordinator(row: IdRow, partition: PartitionRow | None) -> dict[str, Any]:
    """Returns the leader of the id's partition of `__transaction_state`, as it was last seen."""
    return {
        "partition": row.partition,
        "leader": None if partition is None else partition.leader,
        "epoch": None if partition is None else partition.leader_epoch,
    }


def _aborts(row: IdRow) -> dict[str, int]:
    """Returns aborts by cause. An abort whose cause waits for the id's next record counts as unattributed."""
    aborts = {cause: int(getattr(row, f"aborts_{cause}")) for cause in CAUSES}
    aborts["unattributed"] += waiting_abort_ms(row) is not None
    return aborts


def waiting_abort_ms(row: IdRow) -> int | None:
    """Returns when the last abort completed, if it counts but has no cause yet; else None."""
    return row.abort_completed_ms if row.abort_counts and row.settles_at_ms is not None else None
