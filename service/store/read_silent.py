"""Reads which partitions do not answer, by topic: they may be very many, and are told of together."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from service.store.schema import data_partitions

SILENT_READ: Final = 200

_D = data_partitions.c


class SilentTopic(NamedTuple):
    """`partitions` of the topic, `first` to `last`, say the same `why` instead of an answer."""

    topic: str
    why: str
    partitions: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """`orders-0`, `orders-0 to -5`; with holes in between the numbers are only the ends."""
        return f"{self.topic}-{self.first}" + (f" to -{self.last}" if self.last != self.first else "")


def read_silent(
    connection: Connection, cluster_id: int, topic: str = "", limit: int = SILENT_READ
) -> list[SilentTopic]:
    """Those that are watched, did not answer when they were asked last, and did not stand when they answered before:
    the first `limit`, by topic. `topic`: what the name of theirs contains."""
    chosen = [
        _D.cluster_id == cluster_id,
        _D.is_gone.is_(False),
        _D.why.is_not(None),
        _D.stalled_since_ms.is_(None),
    ]
    if topic:
        chosen.append(_D.topic.contains(topic.replace("\0", ""), autoescape=True))
    rows = connection.execute(
        select(_D.topic, _D.why, func.count(), func.min(_D.partition), func.max(_D.partition))
        .where(*chosen)
        .group_by(_D.topic, _D.why)
        .order_by(_D.topic, _D.why)
        .limit(limit)
    )
    return [SilentTopic(*row) for row in rows]
