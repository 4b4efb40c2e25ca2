"""Reads the behaviour of ids, from which their framework is recognised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, func, select

from service.domain.applications import flink_name
from service.domain.id_behaviour import IN_USE, INITS_KEPT, Behaviour, Init
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.states import COMPLETE_ABORT, EMPTY, OPEN, PREPARE_ABORT, UNKNOWN
from service.store.many_rows import batched
from service.store.rows.ids import IdRow
from service.store.schema import transactional_ids, transitions

HISTORY_READ: Final = 50
"""Maximum number of an id's newest history rows that are searched for InitProducerIds. If the store keeps the full
history, most of these rows are other steps."""

_AT_ONCE: Final = 500

_T, _S = transactional_ids.c, transitions.c
_ROWS = select(transactional_ids).where(
    _T.cluster_id == bindparam("cluster"), _T.transactional_id.in_(bindparam("ids", expanding=True))
)
_NEWEST = (
    select(
        _S.transactional_id,
        _S.at_ms,
        _S.producer_epoch,
        _S.to_state,
        func.row_number()
        .over(partition_by=_S.transactional_id, order_by=(_S.generation.desc(), _S.offset.desc()))
        .label("place"),
    )
    .where(_S.cluster_id == bindparam("cluster"), _S.transactional_id.in_(bindparam("ids", expanding=True)))
    .subquery()
)
_INITS = (
    select(_NEWEST.c.transactional_id, _NEWEST.c.at_ms, _NEWEST.c.producer_epoch)
    .where(_NEWEST.c.place <= HISTORY_READ, _NEWEST.c.to_state == EMPTY)
    .order_by(_NEWEST.c.transactional_id, _NEWEST.c.place)
)


def behaviours(connection: Connection, cluster_id: int, ids: Sequence[bytes]) -> list[Behaviour]:
    """Returns the behaviour of each of `ids` that has a row in the store. Reads at most HISTORY_READ history rows of
    each id. Reads InitProducerIds only of ids in Flink's form, because only Flink is recognised by InitProducerIds."""
    found: list[Behaviour] = []
    for some in batched(ids, _AT_ONCE):
        rows = [IdRow.of(row) for row in connection.execute(_ROWS, {"cluster": cluster_id, "ids": some})]
        shows = [row.transactional_id for row in rows if flink_name(row.display) is not None]
        inits = _inits(connection, cluster_id, shows) if shows else {}
        found += (_behaviour(row, inits.get(row.transactional_id, ())) for row in rows)
    return found


def _behaviour(row: IdRow, inits: Sequence[Init]) -> Behaviour:
    is_used = row.state in OPEN or row.state == UNKNOWN
    cause = None if row.last_abort is None else row.last_abort.cause.code
    return Behaviour(
        row.display,
        row.timeout_ms,
        row.record.client_transaction_version,
        tuple(inits),
        IN_USE if is_used else row.record.last_update_ms if row.last_outcome else None,
        row.commits + sum(row.aborts),
        row.last_outcome in (PREPARE_ABORT, COMPLETE_ABORT) and cause in (CauseCode.TIMEOUT, CauseCode.FENCED),
    )


def _inits(connection: Connection, cluster_id: int, ids: Sequence[bytes]) -> Mapping[bytes, Sequence[Init]]:
    """Returns the newest INITS_KEPT InitProducerIds of each id, oldest first."""
    found: defaultdict[bytes, list[Init]] = defaultdict(list)
    for key, at_ms, epoch in connection.execute(_INITS, {"cluster": cluster_id, "ids": ids}):
        found[key].append(Init(at_ms, epoch))
    return {key: newest_first[:INITS_KEPT][::-1] for key, newest_first in found.items()}
