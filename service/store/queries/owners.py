"""Reads the owners of producer ids, expired owners too. An open entry's transactional.id is the owner of its producer
id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, func, select

from service.domain.partitions.open_entries import Owner
from service.domain.source_state import SourceName
from service.domain.transaction_log.coordinator_partition import is_left_behind, partition_count
from service.domain.transaction_log.facts import NO_RECORD, LogRecord
from service.domain.transaction_log.states import EXPIRED
from service.store.many_rows import batched
from service.store.queries.transactions import participants
from service.store.rows.ids import IdRow
from service.store.schema import left_behind_records, log_partitions, producer_ids, transactional_ids

_AT_ONCE: Final = 500

_P, _T, _B = producer_ids.c, transactional_ids.c, left_behind_records.c

_UNKNOWN: Final = NO_RECORD._replace(state=EXPIRED)
_HAD = ("first_seen_ms", "last_seen_ms", "first_epoch", "last_epoch", "ended_offset", "ended_state", "ended_value")
_OWNERS = (
    select(
        _P.producer_id,
        _P.transactional_id,
        *(func.coalesce(_T[name], -1) for name in ("partition", "generation")),
        *(func.coalesce(_T[name], unknown) for name, unknown in _UNKNOWN._asdict().items()),
        *(_P[name] for name in _HAD),
    )
    .select_from(
        producer_ids.outerjoin(
            transactional_ids, and_(_T.cluster_id == _P.cluster_id, _T.transactional_id == _P.transactional_id)
        )
    )
    .where(_P.cluster_id == bindparam("cluster_id"), _P.producer_id.in_(bindparam("producer_ids", expanding=True)))
)
_LEFT_BEHIND = select(left_behind_records).where(
    _B.cluster_id == bindparam("cluster_id"),
    _B.producer_id.in_(bindparam("producer_ids", expanding=True)),
    _B.state != EXPIRED,
)
_PARTITIONS = select(func.max(log_partitions.c.partition), func.max(log_partitions.c.topic_partitions)).where(
    log_partitions.c.cluster_id == bindparam("cluster_id"), log_partitions.c.source == SourceName.TRANSACTION_LOG
)


def owners(connection: Connection, cluster_id: int, asked: Iterable[int]) -> dict[int, list[Owner]]:
    """Returns a mapping from producer id to its owners: the present owner, then the earlier owners, beginning with the
    latest. A producer id that never had an owner is absent.

    If an id expired so long ago that its row is gone, its state is EXPIRED, its log partition and generation are -1,
    and the record's other values are those of NO_RECORD.
    """
    found: dict[int, list[Owner]] = {}
    for some in batched(sorted(set(asked)), _AT_ONCE):
        parameters = {"cluster_id": cluster_id, "producer_ids": some}
        rows = connection.execute(_OWNERS, parameters).all()
        if not rows:
            continue
        open_ = participants(connection, cluster_id, sorted({row.transactional_id for row in rows}))
        read = [(row[0], _owner(row[1:], open_.get(row.transactional_id, []))) for row in rows]
        is_any_earlier = any(owner.producer_id != asked_for for asked_for, owner in read)
        records = connection.execute(_LEFT_BEHIND, parameters) if is_any_earlier else ()
        left = {(record.transactional_id, record.producer_id): record for record in records}
        count = partition_count_of(connection, cluster_id)
        for asked_for, owner in read:
            if owner.producer_id != asked_for and (record := left.get((owner.transactional_id, asked_for))) is not None:
                owner = _with_record(owner, record)
            looked_for = not is_left_behind(owner.transactional_id, owner.log_partition, count)
            found.setdefault(asked_for, []).append(owner._replace(is_left_behind=not looked_for))
    return {asked_for: sorted(had, key=lambda owner: _order(owner, asked_for)) for asked_for, had in found.items()}


def partition_count_of(connection: Connection, cluster_id: int) -> int:
    """Returns the number of partitions of the transaction log; 0 if the store has no position in the log."""
    last, reported = connection.execute(_PARTITIONS, {"cluster_id": cluster_id}).one()
    return 0 if last is None else partition_count((last,), (reported,))


def _owner(row: Sequence[Any], partitions: Iterable[tuple[str, int]]) -> Owner:
    transactional_id, log_partition, generation, *more = row
    record, had = more[: len(LogRecord._fields)], more[len(LogRecord._fields) :]
    return Owner(transactional_id, log_partition, generation, LogRecord(*record), tuple(partitions), *had)


def _with_record(owner: Owner, found: Any) -> Owner:
    """Returns the owner with the values of a left-behind record: the id's newest record under the producer id in
    question. The id has started again in the partition to which it hashes now, and has another producer id there."""
    row = IdRow.of(found[:-1])
    places = tuple((topic, partition) for topic, partition in json.loads(found.participants))
    return owner._replace(log_partition=row.partition, generation=row.generation, record=row.record, partitions=places)


def _order(owner: Owner, producer_id: int) -> tuple[bool, int, bytes]:
    has_it = owner.producer_id == producer_id and owner.state != EXPIRED
    return not has_it, -owner.last_seen_ms, owner.transactional_id
