"""Stores committed offsets of consumer groups on stalled partitions: the last offset seen, the time since which this
offset is unchanged, and the number of its advances above the LSO. The number of advances survives a restart of the
judge, and starts again from 0 when the LSO changes."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from sqlalchemy import Engine, bindparam, delete, select

from service.domain.partitions.group_offsets import GroupOffset
from service.store.escaped_text import group_name
from service.store.lease import Lease, check
from service.store.many_rows import Upsert
from service.store.schema import group_offsets

_G = group_offsets.c
_COLUMNS = tuple(c.name for c in group_offsets.c if c.name in GroupOffset._fields)
_VALUES = attrgetter(*_COLUMNS)
_ROWS = Upsert(group_offsets, columns=("cluster_id", *_COLUMNS), replace=_COLUMNS[3:])
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

    def replace(self, rows: Iterable[GroupOffset], observed_at_ms: int, *, unasked: Iterable[str] = ()) -> None:
        """Replaces the stored rows by `rows`. Keeps the stored rows of the groups in `unasked`, about which there
        is no new answer. Does nothing if a stored row was observed after `observed_at_ms`.

        A call that raises LeaseLost or StoreUnavailable has written nothing. After LeaseLost, stop. After
        StoreUnavailable, try again.
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
                rows_now[offset[:3]] = _after(known.get(offset[:3]), offset, observed_at_ms)
            gone = [key for key in known.keys() - rows_now.keys() if key[0] not in kept]
            if gone:
                names = ("of_group", "of_topic", "of_partition")
                connection.execute(
                    _DROP,
                    [{"of_cluster": self._cluster_id} | dict(zip(names, key, strict=True)) for key in sorted(gone)],
                )
            _ROWS.write(connection, [(self._cluster_id, *_VALUES(row)) for _, row in sorted(rows_now.items())])


def _after(old: GroupOffset | None, new: GroupOffset, at_ms: int) -> GroupOffset:
    """Returns the row that replaces `old` after an observation at `at_ms`. If `new` has no LSO, the row keeps the old
    LSO. If, in addition, the committed offset is unchanged, the row keeps `has_records_ahead` and
    `records_ahead_since_ms`. Readers of the row compare its LSO with the partition's present LSO."""
    same = old if old is not None and old.committed_offset == new.committed_offset else None
    ahead, ahead_since_ms = new.has_records_ahead, at_ms if new.has_records_ahead else None
    if same is not None and new.lso is None:
        ahead, ahead_since_ms = same.has_records_ahead, same.records_ahead_since_ms
    elif same is not None and ahead and same.records_ahead_since_ms is not None:
        ahead_since_ms = same.records_ahead_since_ms
    return new._replace(
        observed_at_ms=at_ms,
        unchanged_since_ms=at_ms if same is None else same.unchanged_since_ms,
        lso=old.lso if new.lso is None and old is not None else new.lso,
        advances=_advances(old, new),
        has_records_ahead=ahead,
        records_ahead_since_ms=ahead_since_ms,
    )


def _advances(old: GroupOffset | None, new: GroupOffset) -> int:
    """Returns the number of advances after an observation: 0 without an old row, without members, or if the LSO has
    changed. A group without members loses its advances, because new members may read with another isolation level. A
    step from the LSO or below does not count, because a reset may be its cause."""
    if old is None or not new.members or (new.lso is not None and new.lso != old.lso):
        return 0
    has_advanced = new.lso is not None and new.lso < old.committed_offset < new.committed_offset
    return old.advances + (1 if has_advanced and old.members else 0)
