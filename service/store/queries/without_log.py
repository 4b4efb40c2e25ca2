"""Finds out from the store whether transactions are used on a cluster whose brokers list no transaction log.

The job that follows the log asks the coordinators for that; they may leave out open transactions, which the partitions
show.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, select

from service.domain.reasons.coding import decode_if
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import NoTransactionLog, TransactionsSeen, is_log_absent
from service.domain.source_state import SourceName
from service.store.schema import log_partitions, open_entries, source_status

APPEARS_WITHIN_MS: Final = 10_000
"""Time after which Apache Kafka lists `__transaction_state` to every client: the coordinator of the first transaction
needs it before the transaction begins."""

_E, _L, _S = open_entries.c, log_partitions.c, source_status.c


def without_log(connection: Connection, cluster_id: int, now_ms: int) -> Reason | None:
    """Returns why there is no transaction log; None if it may still be created, or was read before. `now_ms`: the
    brokers do not list it now. A sign of transactions counts until the log appears, also when they have ended."""
    of_cluster = (_L.cluster_id == cluster_id, _L.source == SourceName.TRANSACTION_LOG)
    if connection.execute(select(_L.partition).where(*of_cluster).limit(1)).first() is not None:
        return None
    stored = select(_S.error).where(_S.cluster_id == cluster_id, _S.source == SourceName.TRANSACTION_LOG)
    known = decode_if(connection.scalar(stored))
    if is_log_absent(known):
        return known
    is_open = select(_E.topic).where(_E.cluster_id == cluster_id, _E.first_seen_ms <= now_ms - APPEARS_WITHIN_MS)
    seen = connection.execute(is_open.limit(1)).first() is not None
    return NoTransactionLog(TransactionsSeen.OPEN) if seen else None
