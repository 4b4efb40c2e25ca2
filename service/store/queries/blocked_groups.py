"""Reads the consumer groups on stalled partitions, and the relation of each to the stall, for several packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, select

from service.domain.partitions.blocked_groups import OFFSETS_TOPIC, Ends, Victim, victims
from service.domain.partitions.facts import Place
from service.store.many_rows import rows_at
from service.store.queries import partitions
from service.store.queries.judged_partitions import looked_at_ms
from service.store.schema import data_partitions

STANDING_READ: Final = 5_000

_D = data_partitions.c
_ENDS = select(_D.topic, _D.partition, *(_D[name] for name in Ends._fields)).where(_D.is_gone.is_(False))


def read_victims(connection: Connection, cluster_id: int) -> list[Victim]:
    """Returns the relation of every group on a stalled partition, by group, topic and partition; as many as the watch
    of groups keeps, a few thousand at most."""
    offsets = partitions.groups(connection, cluster_id)
    as_of_ms = looked_at_ms(connection, cluster_id)
    if not offsets or as_of_ms is None:
        return []
    places = sorted({(one.topic, one.partition) for one in offsets})
    ends = _by_place(rows_at(connection, _ENDS, data_partitions, cluster_id, places))
    ends |= _of_offsets_topic(connection, cluster_id)
    return victims(offsets, ends, offsets_partitions(ends), as_of_ms)


def standing(connection: Connection, cluster_id: int) -> dict[Place, Ends]:
    """Returns the stalled partitions, the longest stalled first, STANDING_READ at most; if there are any, all
    partitions of `__consumer_offsets` too."""
    below = _ENDS.where(_D.cluster_id == cluster_id, _D.stalled_since_ms.is_not(None))
    found = _by_place(connection.execute(below.order_by(_D.stalled_since_ms).limit(STANDING_READ)))
    return found | _of_offsets_topic(connection, cluster_id) if found else {}


def offsets_partitions(ends: Mapping[Place, Ends]) -> int | None:
    """Returns how many partitions `__consumer_offsets` has; None if it is not watched."""
    return max((partition + 1 for topic, partition in ends if topic == OFFSETS_TOPIC), default=None)


def _of_offsets_topic(connection: Connection, cluster_id: int) -> dict[Place, Ends]:
    return _by_place(connection.execute(_ENDS.where(_D.cluster_id == cluster_id, _D.topic == OFFSETS_TOPIC)))


def _by_place(rows: Iterable[Any]) -> dict[Place, Ends]:
    return {(row[0], row[1]): Ends(*row[2:]) for row in rows}
