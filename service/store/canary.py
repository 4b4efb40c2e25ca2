"""Stores the canary: its settings and state, and the results of its rounds at each coordinator."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, delete, insert, select, update

from service.domain.canary.rounds import NO_LATENCIES, Coordinator, Failure, Latencies, Phase, Recent
from service.store.schema import canaries, canary_coordinators

_C, _O = canaries.c, canary_coordinators.c
_TOKEN_BYTES: Final = 4


class Canary(NamedTuple):
    """The canary of a cluster. `as_of_ms`: last time at which the canary's process was alive. `leaderless`: number of
    partitions of the transaction log without a leader. `trouble`: why the canary cannot probe coordinators, None while
    it can."""

    token: str
    topic: str
    every_ms: int
    as_of_ms: int
    is_running: bool
    leaderless: int
    trouble: str | None


_CANARY: Final = select(*(_C[name] for name in Canary._fields))


def find_canary(connection: Connection, cluster_id: int) -> Canary | None:
    """Returns the canary of the cluster; None if there never was one."""
    row = connection.execute(_CANARY.where(_C.cluster_id == cluster_id)).one_or_none()
    return None if row is None else Canary(*row)


def begin(connection: Connection, cluster_id: int, topic: str, every_ms: int, now_ms: int) -> str:
    """Stores these settings, and marks the canary as running. Returns the token that is part of the canary's
    transactional.ids. The token is made once for each store and cluster."""
    values = {
        "topic": topic,
        "every_ms": every_ms,
        "as_of_ms": now_ms,
        "is_running": True,
        "leaderless": 0,
        "trouble": None,
    }
    if connection.execute(update(canaries).where(_C.cluster_id == cluster_id).values(values)).rowcount == 0:
        token = secrets.token_hex(_TOKEN_BYTES)
        connection.execute(insert(canaries).values(cluster_id=cluster_id, token=token, **values))
    return str(connection.scalar(select(_C.token).where(_C.cluster_id == cluster_id)))


def note_alive(
    connection: Connection,
    cluster_id: int,
    now_ms: int,
    leaderless: int,
    trouble: str | None,
    *,
    is_running: bool = True,
) -> None:
    """Stores the canary's state: its process is alive at `now_ms` or, with `is_running=False`, stops then.
    `leaderless`, `trouble`: as in `Canary`."""
    values = {"as_of_ms": now_ms, "leaderless": leaderless, "trouble": trouble, "is_running": is_running}
    connection.execute(update(canaries).where(_C.cluster_id == cluster_id).values(values))


def read_coordinators(connection: Connection, cluster_id: int) -> list[Coordinator]:
    """Returns all coordinators that the canary knows, sorted by broker."""
    rows = connection.execute(select(canary_coordinators).where(_O.cluster_id == cluster_id).order_by(_O.broker))
    return [_coordinator(row) for row in rows]


def save_coordinator(connection: Connection, cluster_id: int, coordinator: Coordinator) -> None:
    """Stores the coordinator; replaces its stored state."""
    failure = coordinator.failure
    values: dict[str, Any] = {
        "log_partition": coordinator.log_partition,
        "transactional_id": coordinator.transactional_id,
        "rounds": coordinator.rounds,
        "last_at_ms": coordinator.last_at_ms,
        "init_us": coordinator.init_us,
        "failing_since_ms": coordinator.failing_since_ms,
        "phase": None if failure is None else str(failure.phase),
        "error": None if failure is None else failure.error,
        "detail": None if failure is None else failure.detail,
        "idle_since_ms": coordinator.idle_since_ms,
        "failures": dict(coordinator.failures),
        "commits": list(coordinator.commits),
        "visibles": list(coordinator.visibles),
        "recent": list(map(list, coordinator.recent)),
    }
    stored = (_O.cluster_id == cluster_id, _O.broker == coordinator.broker)
    if connection.execute(update(canary_coordinators).where(*stored).values(values)).rowcount == 0:
        connection.execute(
            insert(canary_coordinators).values(cluster_id=cluster_id, broker=coordinator.broker, **values)
        )


def forget_coordinators(connection: Connection, cluster_id: int, brokers: Collection[int]) -> None:
    """Deletes the coordinators of these brokers."""
    connection.execute(delete(canary_coordinators).where(_O.cluster_id == cluster_id, _O.broker.in_(sorted(brokers))))


def _coordinator(row: Row[Any]) -> Coordinator:
    return Coordinator(
        broker=row.broker,
        log_partition=row.log_partition,
        transactional_id=row.transactional_id,
        rounds=row.rounds,
        last_at_ms=row.last_at_ms,
        init_us=row.init_us,
        failing_since_ms=row.failing_since_ms,
        failure=None if row.error is None else Failure(Phase(row.phase), row.error, row.detail or ""),
        idle_since_ms=row.idle_since_ms,
        failures=MappingProxyType(dict(row.failures)),
        commits=_latencies(row.commits),
        visibles=_latencies(row.visibles),
        recent=tuple(Recent(*one) for one in row.recent),
    )


def _latencies(stored: Any) -> Latencies:
    """Returns the stored durations; NO_LATENCIES if a version with other buckets stored them."""
    counts, sum_us = tuple(stored[0]), int(stored[1])
    return Latencies(counts, sum_us) if len(counts) == len(NO_LATENCIES.counts) else NO_LATENCIES
