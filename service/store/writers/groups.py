"""Stores committed offsets of consumer groups on stalled partitions: the last one seen, and the time since which it is
unchanged."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple

from sqlalchemy import Engine, bindparam, delete, select

from service.domain.partitions.blocked_groups import GroupOffset
from service.store.display import printable
from service.store.lease import Lease, check
from service.store.many_rows import Upsert
from service.store.schema import group_offsets

LONGEST_NAME: Final = 600
"""Maximum number of characters kept of a group's name: PostgreSQL's index holds 2,704 bytes a row, and Kafka allows
more."""

_DIGEST: Final = 16


class ObservedGroupOffset(NamedTuple):
    """The offset of a group on a partition: service.domain.partitions.blocked_groups.GroupOffset without times."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    members: int | None
    is_unstable: bool
    producer_id: int | None = None


_G = group_offsets.c
_ROWS = Upsert(group_offsets, columns=("cluster_id", *GroupOffset._fields), replace=GroupOffset._fields[3:])
_DROP = delete(group_offsets).where(
    _G.cluster_id == bindparam("of_cluster"),
    _G.group == bindparam("of_group"),
    _G.topic == bindparam("of_topic"),
    _G.partition == bindparam("of_partition"),
)


class GroupWriter:
    """The only writer of the observed offsets of a cluster's groups."""

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine, self._lease, self._cluster_id = engine, lease, lease.cluster_id

    def replace(self, rows: Iterable[ObservedGroupOffset], observed_at_ms: int, *, unasked: Iterable[str] = ()) -> None:
        """Replaces the stored rows by these. `unasked`: groups that could not be asked, whose stored rows stay.

        Does nothing if a stored row was observed later. LeaseLost: stop. StoreUnavailable: nothing was written.
        """
        kept = {group_name(group) for group in unasked}
        with self._engine.begin() as connection:
            check(connection, self._lease)
            stored = connection.execute(
                select(*(_G[name] for name in GroupOffset._fields)).where(_G.cluster_id == self._cluster_id)
            )
            known = {tuple(row[:3]): GroupOffset._make(row) for row in stored}
            if any(row.observed_at_ms > observed_at_ms for row in known.values()):
                return
            rows_now = {}
            for row in rows:
                offset = row._replace(group=group_name(row.group))
                old = known.get(offset[:3])
                is_unchanged = old is not None and old.committed_offset == offset.committed_offset
                since_ms = old.standing_since_ms if old is not None and is_unchanged else observed_at_ms
                rows_now[offset[:3]] = GroupOffset(*offset[:6], observed_at_ms, since_ms, offset.producer_id)
            gone = [key for key in known.keys() - rows_now.keys() if key[0] not in kept]
            if gone:
                names = ("of_group", "of_topic", "of_partition")
                connection.execute(
                    _DROP,
                    [{"of_cluster": self._cluster_id} | dict(zip(names, key, strict=True)) for key in sorted(gone)],
                )
            _ROWS.write(connection, [(self._cluster_id, *row) for _, row in sorted(rows_now.items())])


def group_name(group: str) -> str:
    """Returns the name as it is stored and shown: characters that do not print are escaped, and a very long name is cut
    and gets a digest."""
    shown = printable(group)
    if len(shown) <= LONGEST_NAME:
        return shown
    return f"{shown[:LONGEST_NAME]}…{sha256(shown.encode()).hexdigest()[:_DIGEST]}"
