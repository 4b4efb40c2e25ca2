"""Reads what pages show beside the rows of ids: what ended lately of many, the producer ids of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from service.store.id_key import id_key
from service.store.queries.clusters import Ends
from service.store.schema import id_minutes, producer_ids

_PRODUCERS_READ: Final = 50

_M, _P = id_minutes.c, producer_ids.c
_ABORTS = sum(
    (_M[f"aborts_{cause}"] for cause in ("timeout", "fenced", "admin", "unattributed")), start=_M.aborts_client
)


class ProducerRow(NamedTuple):
    """When an id wrote under a producer id, and with which epochs."""

    producer_id: int
    first_seen_ms: int
    last_seen_ms: int
    first_epoch: int
    last_epoch: int


def ends_since(
    connection: Connection, cluster_id: int, transactional_ids: Sequence[bytes], from_ms: int
) -> dict[bytes, Ends]:
    """Of a page of ids, in the minutes that begin at `from_ms` or later; nothing of those where nothing ended."""
    asked = {id_key(transactional_id): transactional_id for transactional_id in transactional_ids}
    rows = connection.execute(
        select(_M.transactional_id, func.sum(_M.commits), func.sum(_ABORTS))
        .where(_M.cluster_id == cluster_id, _M.transactional_id.in_(asked), _M.minute_ms >= from_ms)
        .group_by(_M.transactional_id)
    )
    return {asked[key]: Ends(int(commits), int(aborts)) for key, commits, aborts in rows}


def producers_of(connection: Connection, cluster_id: int, transactional_id: bytes) -> list[ProducerRow]:
    """The newest first, those that are remembered."""
    rows = connection.execute(
        select(*(_P[name] for name in ProducerRow._fields))
        .where(_P.cluster_id == cluster_id, _P.transactional_id == id_key(transactional_id))
        .order_by(_P.last_seen_ms.desc(), _P.first_seen_ms.desc(), _P.producer_id.desc())
        .limit(_PRODUCERS_READ)
    )
    return [ProducerRow(*row) for row in rows]
