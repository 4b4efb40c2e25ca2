"""One Partition as the API shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.api.http.fields import id_fields, partition_link, text_of_time, time_field, transaction_link
from service.domain.findings.hanging import is_blocking
from service.domain.partitions.open_entries import COMPLETING, OPENED, OVERDUE, Owner
from service.domain.reasons.reason import text_of
from service.domain.transaction_log.states import is_time
from service.store.queries.judged_partitions import JudgedEntry, JudgedPartition
from service.store.queries.partitions import PartitionRow

_OWN: Final = frozenset({OPENED, OVERDUE, COMPLETING})
"""Relations of an entry that belongs to its owner's present transaction."""


def describe_partition(
    judged: JudgedPartition, blocked_groups: Sequence[str], cluster: str, ids: Mapping[bytes, bytes]
) -> dict[str, Any]:
    """Returns the Partition of the API.

    `blocked_groups`: the names of the consumer groups blocked on the partition. `cluster`: the name of its cluster.
    `ids`: transactional ids by the keys of owners.
    """
    row = judged.row
    is_told = row.answered_at_ms is not None
    return {
        "topic": row.topic,
        "partition": row.partition,
        "leader": row.leader if row.leader >= 0 else None,
        "leader_epoch": row.leader_epoch if row.leader_epoch >= 0 else None,
        "log_start_offset": row.log_start if row.log_start >= 0 else None,
        "last_stable_offset": row.last_stable_offset if is_told else None,
        "high_watermark": row.high_watermark if is_told else None,
        "lso_lag_records": max(row.high_watermark - row.last_stable_offset, 0) if is_told else None,
        "lso_lag_bytes": _lag_bytes(row),
        "lso_stalled_since": text_of_time(row.stalled_since_ms),
        "blocker": None if judged.blocker is None else _transaction(judged.blocker, row, cluster, ids),
        "open_transactions": [_transaction(one, row, cluster, ids) for one in judged.entries],
        "blocked_groups": list(blocked_groups),
        "judged": judged.why is None,
        "why": text_of(judged.why),
        "observed_at": text_of_time(row.looked_at_ms if row.why is None else row.answered_at_ms),
        "href": partition_link(cluster, row.topic, row.partition),
    }


def _transaction(one: JudgedEntry, row: PartitionRow, cluster: str, ids: Mapping[bytes, bytes]) -> dict[str, Any]:
    entry, relation = one.entry, one.relation
    owner = relation.owner
    transactional_id = None if owner is None else ids[owner.transactional_id]
    first = row.first if entry.start_offset == row.read_lso else None
    is_its_first = first is not None and first.producer_id == entry.producer_id
    return {
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        **id_fields(transactional_id),
        "start_offset": entry.start_offset,
        **time_field("started_at", _started_at_ms(one, owner)),
        **time_field("first_record_timestamp", first.first_timestamp_ms if first and is_its_first else None),
        **time_field("last_write_at", entry.last_timestamp_ms),
        "records": entry.records,
        "bytes": entry.bytes,
        "blocking_now": is_blocking(entry, row.log_start, row.last_stable_offset),
        "relation": relation.kind,
        "why": text_of(relation.why),
        "href": None if transactional_id is None else transaction_link(cluster, transactional_id),
    }


def _started_at_ms(one: JudgedEntry, owner: Owner | None) -> int:
    """Returns the coordinator's start time if the entry belongs to its owner's present transaction, else when the entry
    was first seen. A producer's clock is not used.
    """
    if owner is not None and one.relation.kind in _OWN and is_time(owner.start_ms):
        return owner.start_ms
    return one.entry.first_seen_ms


def _lag_bytes(row: PartitionRow) -> int | None:
    """Returns the bytes behind the LSO from the newest read; None if the LSO has moved since."""
    return row.lag_bytes if row.read_lso == row.last_stable_offset else None
