"""Reads the inputs from which the applications of ids are determined: new ids, all ids in their order, and topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select, text

from service.store.schema import IS_NEW, data_partitions, transactional_ids


class IdToExamine(NamedTuple):
    """An id, and the application that the store has for the id. `is_examined`: None if the id is new, False if the id
    is of the first read and has not been examined yet."""

    transactional_id: bytes
    display: str
    timeout_ms: int
    application: str | None
    framework: str | None
    is_examined: bool | None

    @property
    def name(self) -> str:
        return self.display


_T, _D = transactional_ids.c, data_partitions.c
_IDS = (
    select(*(_T[name] for name in IdToExamine._fields))
    .where(_T.cluster_id == bindparam("cluster"))
    .order_by(_T.transactional_id)
)
_NEW: Final = _IDS.where(text(IS_NEW)).limit(bindparam("most"))
_AFTER: Final = _IDS.where(_T.transactional_id > bindparam("after")).limit(bindparam("most"))
_TOPICS: Final = (
    select(_D.topic, func.max(_D.partition)).where(_D.cluster_id == bindparam("cluster")).group_by(_D.topic)
)


def new_ids(connection: Connection, cluster_id: int, most: int) -> Sequence[IdToExamine]:
    """Returns at most `most` ids that were never examined. Leaves out ids from the first read of the transaction
    log."""
    return [IdToExamine(*row) for row in connection.execute(_NEW, {"cluster": cluster_id, "most": most})]


def ids_after(connection: Connection, cluster_id: int, after: bytes, most: int) -> Sequence[IdToExamine]:
    """Returns at most `most` ids after the id `after`, in the order of their bytes."""
    rows = connection.execute(_AFTER, {"cluster": cluster_id, "after": after, "most": most})
    return [IdToExamine(*row) for row in rows]


def partition_counts(connection: Connection, cluster_id: int) -> dict[str, int]:
    """Returns the number of partitions of each watched topic."""
    return {topic: last + 1 for topic, last in connection.execute(_TOPICS, {"cluster": cluster_id})}
