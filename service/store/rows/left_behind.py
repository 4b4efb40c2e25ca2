"""The rows of an id that has records in several partitions of the transaction log, and which of them counts. Pure.

Partitions that are added to the log leave records behind: the coordinator of an id is the leader of the partition to
which the id hashes now (`service.domain.transaction_log.coordinator_partition`). The row of `transactional_ids` is the
one that counts, with the counts of all of them; the others are in `left_behind_records`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from service.domain.transaction_log.coordinator_partition import coordinator_partition
from service.domain.transaction_log.states import EXPIRED
from service.store.id_key import full_id
from service.store.rows.ids import IdRow

_COUNTS: Final = ("commits", "aborts_client", "aborts_timeout", "aborts_fenced", "aborts_admin", "aborts_unattributed")

_NOTHING: Final[dict[str, Any]] = dict.fromkeys(_COUNTS, 0)

Places = tuple[tuple[str, int], ...]
"""(topic, partition) of an open transaction."""


class Record(NamedTuple):
    """The row made of an id's newest record in one partition of the log. `places`: of its open transaction."""

    row: IdRow
    places: Places


class Divided(NamedTuple):
    """The record of an id that counts, with the counts of all, and the others by partition."""

    counting: Record
    others: dict[int, Record]


def divide(records: Iterable[Record], partition_count: int) -> Divided:
    """Returns which of an id's records counts, whatever their order: one that is alive before one that has expired;
    among those the one where a coordinator looks, then the one that was appended last. A row of a log that was replaced
    by another one (offset below 0) leaves nothing but its counts."""
    known = list(records)
    chosen = max(known, key=lambda one: _rank(one.row, partition_count))
    sums: dict[str, Any] = {name: sum(getattr(one.row, name) for one in known) for name in _COUNTS}
    others = {
        one.row.partition: one._replace(row=one.row._replace(**_NOTHING))
        for one in known
        if one is not chosen and one.row.offset >= 0
    }
    return Divided(chosen._replace(row=chosen.row._replace(**sums)), others)


def _rank(row: IdRow, partition_count: int) -> tuple[bool, bool, bool, int, int]:
    looked_for = coordinator_partition(full_id(row.transactional_id, row.display), partition_count)
    return row.offset >= 0, row.state != EXPIRED, row.partition == looked_for, row.timestamp_ms, row.partition
