"""Counts the aborts whose cause waited for the id's next record, once none can come in time any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from service.domain.transaction_log import journal
from service.domain.transaction_log.facts import RangeRead
from service.domain.transaction_log.minutes import minute_of
from service.store.schema import transactional_ids
from service.store.writers.id_rows import IdRow, last_abort
from service.store.writers.minutes import COUNTED_AS, MINUTES, Cell
from service.store.writers.runs import Ended

AT_ONCE: Final = 1_000

_WAITING = (
    select(transactional_ids)
    .where(
        transactional_ids.c.cluster_id == bindparam("cluster"),
        transactional_ids.c.settles_at_ms <= bindparam("now"),
    )
    .order_by(transactional_ids.c.settles_at_ms)
    .limit(AT_ONCE)
)
_SETTLE = (
    update(transactional_ids)
    .where(
        transactional_ids.c.cluster_id == bindparam("cluster"),
        transactional_ids.c.transactional_id == bindparam("key"),
    )
    .values(abort_is_open=False, settles_at_ms=None)
)


def settle_causes(connection: Connection, cluster_id: int, reads: Iterable[RangeRead], ended: Ended) -> None:
    """Settle what waits in the logs of `reads` that were read to an end asked for late enough; adds to `ended`.

    The end of the log, not our clock, says that nothing followed in time: after an outage the next record may lie
    there unread.
    """
    proven = {read.partition: read.end_asked_at_ms for read in reads if read.hi >= read.end_offset}
    if not proven:
        return
    cells = []
    for found in connection.execute(_WAITING, {"cluster": cluster_id, "now": max(proven.values())}).all():
        row = IdRow(*found)
        if row.settles_at_ms is None or row.settles_at_ms > proven.get(row.partition, -1):
            continue
        last, cause = journal.settled(last_abort(row))
        settle, word = _SETTLE, COUNTED_AS[cause]
        if last.counts and last.completed_at_ms is not None:
            ended.by_cause[word] += 1
            cell, minute_ms = Cell(), minute_of(last.completed_at_ms)
            cell.aborts[word] += 1
            cells.append(cell.row(cluster_id, row.transactional_id, minute_ms))
            column = transactional_ids.c[f"aborts_{word}"]
            settle = settle.values({column: column + 1})
        connection.execute(settle, {"cluster": cluster_id, "key": row.transactional_id})
    MINUTES.write(connection, cells)
