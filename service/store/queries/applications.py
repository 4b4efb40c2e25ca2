"""Reads what shows the maker of a transactional.id: its own use, and that of its siblings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, select

from service.domain.applications import IN_USE, INITS_KEPT, Behaviour, Init
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.states import COMPLETE_ABORT, EMPTY, OPEN, PREPARE_ABORT, UNKNOWN
from service.store.schema import transactional_ids, transitions

HISTORY_READ: Final = 50
"""Rows of an id's history that are searched for InitProducerIds: with full history, every step has one."""

_T = transactional_ids.c
_ABORTS: Final = (_T.aborts_client, _T.aborts_timeout, _T.aborts_fenced, _T.aborts_admin, _T.aborts_unattributed)
_IDS = select(
    _T.transactional_id,
    _T.display,
    _T.state,
    _T.timeout_ms,
    _T.client_transaction_version,
    _T.last_update_ms,
    _T.last_outcome,
    _T.abort_cause,
    (_T.commits + sum(_ABORTS, start=0)).label("ends"),
)
_S = transitions.c


def behaviours(connection: Connection, cluster_id: int, ids: Sequence[bytes]) -> list[Behaviour]:
    """Returns the use of those of the ids that exist. Reads at most HISTORY_READ rows of history of each."""
    found = connection.execute(_IDS.where(_T.cluster_id == cluster_id, _T.transactional_id.in_(ids)))
    return [
        Behaviour(
            row.display,
            row.timeout_ms,
            row.client_transaction_version,
            _inits(connection, cluster_id, row.transactional_id),
            IN_USE if row.state in OPEN or row.state == UNKNOWN else row.last_update_ms if row.last_outcome else None,
            row.ends,
            row.last_outcome in (PREPARE_ABORT, COMPLETE_ABORT)
            and row.abort_cause in (CauseCode.TIMEOUT, CauseCode.FENCED),
        )
        for row in found.all()
    ]


def _inits(connection: Connection, cluster_id: int, one: bytes) -> tuple[Init, ...]:
    newest = (
        select(_S.at_ms, _S.producer_epoch, _S.to_state)
        .where(_S.cluster_id == cluster_id, _S.transactional_id == one)
        .order_by(_S.generation.desc(), _S.offset.desc())
        .limit(HISTORY_READ)
    )
    found = [Init(row.at_ms, row.producer_epoch) for row in connection.execute(newest) if row.to_state == EMPTY]
    return tuple(reversed(found[:INITS_KEPT]))
