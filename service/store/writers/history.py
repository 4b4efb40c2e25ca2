"""Writes history: notable transitions, minutes of ids, causes that were settled later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, update

from service.domain.transaction_log.causes import Cause
from service.domain.transaction_log.id_delta import IdDelta
from service.domain.transaction_log.minutes import ABORT_WORDS, MINUTE_MS, MinuteSums
from service.store.many_rows import Upsert
from service.store.rows.ids import IdRow
from service.store.schema import id_minutes, transitions

MINUTES: Final = Upsert(
    id_minutes,
    add=("commits", *(f"aborts_{word}" for word in ABORT_WORDS), "opened", "open_sum_ms", "marked", "marker_sum_ms"),
    most=("open_max_ms", "marker_max_ms", "last_ms"),
    least=("first_ms",),
)

_TRANSITIONS = Upsert(
    transitions,
    columns=[column.name for column in transitions.c if column.name != "id"],
    key=("cluster_id", "partition", "generation", "offset"),
)
_REVISE = (
    update(transitions)
    .where(
        transitions.c.cluster_id == bindparam("cluster"),
        transitions.c.partition == bindparam("log_partition"),
        transitions.c.generation == bindparam("log_generation"),
        transitions.c.offset == bindparam("at"),
    )
    .values(cause=bindparam("word"), confidence=bindparam("sure"))
)


class HistoryRows:
    """Collects the history rows of the deltas of ids; leaves out transitions and minutes from before `oldest_ms`."""

    def __init__(self, cluster_id: int, oldest_ms: int, counts: bool) -> None:
        self._cluster_id, self._oldest_ms, self._counts = cluster_id, oldest_ms, counts
        self._transitions: list[tuple[Any, ...]] = []
        self._minutes: list[tuple[Any, ...]] = []
        self._revised: list[dict[str, Any]] = []

    def add(self, row: IdRow, delta: IdDelta) -> None:
        place = (self._cluster_id, row.transactional_id, row.partition, row.generation)
        for one in delta.transitions:
            if one.at_ms >= self._oldest_ms:
                self._transitions.append((*place, *one, self._counts))
        for minute_ms, sums in delta.minutes.items():
            if minute_ms >= self._oldest_ms:
                self._minutes.append(minute_row(sums, self._cluster_id, row.transactional_id, minute_ms))
        self._revised += [revision(row, offset, cause) for offset, cause in delta.revised]

    def write(self, connection: Connection) -> None:
        _TRANSITIONS.write(connection, self._transitions)
        MINUTES.write(connection, self._minutes)
        revise(connection, self._revised)


def revision(row: IdRow, offset: int, cause: Cause) -> dict[str, Any]:
    """Returns the parameters with which `revise` gives the id's history row at `offset` another cause."""
    return {
        "cluster": row.cluster_id,
        "log_partition": row.partition,
        "log_generation": row.generation,
        "at": offset,
        "word": cause.code,
        "sure": cause.confidence,
    }


def revise(connection: Connection, revisions: Sequence[Mapping[str, Any]]) -> None:
    """Gives history rows their new causes; rows that are not stored are passed over."""
    if revisions:
        connection.execute(_REVISE, revisions)


def minute_row(sums: MinuteSums, cluster_id: int, transactional_id: bytes, minute_ms: int) -> tuple[Any, ...]:
    """Returns a row of `id_minutes`. Without commits, `first_ms` is the minute's end and `last_ms` its start, so that
    any commit replaces them."""
    return (
        cluster_id,
        transactional_id,
        minute_ms,
        sums.commits,
        *(sums.aborts[word] for word in ABORT_WORDS),
        sums.opened,
        sums.open_sum_ms,
        sums.open_max_ms,
        sums.marked,
        sums.marker_sum_ms,
        sums.marker_max_ms,
        sums.first_ms if sums.commits else minute_ms + MINUTE_MS - 1,
        sums.last_ms if sums.commits else minute_ms,
    )
