"""The lease that lets one Spark driver at a time write a cluster's data. Every new holder raises the lease's epoch, so
a replaced driver cannot write.

A waiting driver takes over if the lease was released, if the holder's process has ended, or if the row has not changed
for EXPIRES_AFTER_MS (docs/adr/0020). It measures this time itself, and does not compare the times in the row with its
own clock, because the clocks of two hosts may differ. Services use these times only to report whether the cluster is
still read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Row, Update, bindparam, select, update

from service.processes.identity import host_and_pid
from service.store.backends import backend_of
from service.store.errors import LeaseLost
from service.store.many_rows import Upsert
from service.store.schema import leases
from service.store.schema_check import SchemaCheck

EXPIRES_AFTER_MS: Final = 10_000
"""Time (ms) without a renewal after which a waiting driver may take the lease; the waiting driver measures this
time."""

NOTIFIER: Final = 0
"""The `cluster_id` of the notifier's lease, which lets one service at a time send the notifications about all
clusters."""

EXPORTER: Final = -(1 << 31)
"""The `cluster_id` of the exporter's lease, which lets one service at a time send the store's metrics and traces by
OTLP. No canary's lease has this number."""


def canary_lease(cluster_id: int) -> int:
    """Returns the `cluster_id` of the lease that lets one service at a time run the canary of a cluster."""
    return -cluster_id


_FREE: Final = Upsert(leases)
_IF_HELD: Final = update(leases).where(
    leases.c.cluster_id == bindparam("held_cluster"),
    leases.c.epoch == bindparam("held_epoch"),
    leases.c.released.is_(False),
)
_CHECK: Final = _IF_HELD.values(epoch=bindparam("held_epoch"))
_RENEW: Final = _IF_HELD.values(renewed_at_ms=bindparam("now_ms"))
_RELEASE: Final = _IF_HELD.values(released=True)


class Lease(NamedTuple):
    """A right that only one process has at a time, such as the right to write one cluster's data. It lasts until the
    lease is released, or is taken with a higher epoch."""

    cluster_id: int
    owner: str
    epoch: int


class Renewal(NamedTuple):
    """The newest renewal of a held lease. Renewals are compared only for equality, so a wrong clock of the holder does
    no harm."""

    owner: str
    epoch: int
    at_ms: int


def newest_renewal(engine: Engine, cluster_id: int) -> Renewal | None:
    """Returns the newest renewal; None if nobody holds the lease."""
    with engine.begin() as connection:
        row = connection.execute(select(leases).where(leases.c.cluster_id == cluster_id)).one_or_none()
    return None if row is None else _renewal_in(row)


def acquire(engine: Engine, cluster_id: int, owner: str, now_ms: int, expired: Renewal | None = None) -> Lease | None:
    """Takes the lease if nobody holds it, if `owner` holds it, or if `expired` is still its newest renewal; else
    returns None. `expired`: a renewal that the caller has seen unchanged for EXPIRES_AFTER_MS, or whose owner has
    ended. If `expired` is given, first ends the database session of a client that was stopped while it wrote under the
    lease.

    Raises the errors of `SchemaCheck.check`, for example StoreTooNew: a newer version may have migrated the tables
    since this process started."""
    if expired is not None:
        backend_of(engine).end_stopped_writer(engine, cluster_id)
    row = select(leases).where(leases.c.cluster_id == cluster_id).with_for_update()
    with engine.begin() as connection:
        SchemaCheck(engine).check(connection)
        _FREE.write(connection, [(cluster_id, "", 0, now_ms, True)])
        held = connection.execute(row).one()
        renewal = _renewal_in(held)
        if not (renewal is None or renewal.owner == owner or renewal == expired):
            return None
        taken = {"owner": owner, "epoch": held.epoch + 1, "renewed_at_ms": now_ms, "released": False}
        connection.execute(update(leases).where(leases.c.cluster_id == cluster_id).values(taken))
        return Lease(cluster_id, owner, held.epoch + 1)


def check(connection: Connection, lease: Lease) -> None:
    """Raises LeaseLost if the lease was taken with a higher epoch, or released. Call the function first in every
    writing transaction: until the transaction ends, nobody can take the lease. A check does not renew the lease,
    because a write does not prove that every part of the job makes progress."""
    _require(connection, lease, _CHECK, {})


def renew(engine: Engine, lease: Lease, now_ms: int) -> None:
    """Renews the lease, so that no driver takes it within EXPIRES_AFTER_MS. Call the function only while all parts that
    hold the lease (`liveness.Liveness.part`) make progress.

    Raises the errors of `check`.
    """
    with engine.begin() as connection:
        _require(connection, lease, _RENEW, {"now_ms": now_ms})


def release(engine: Engine, lease: Lease) -> None:
    """Releases the lease, so that the next driver can take it at once; does nothing if the lease was lost already."""
    with engine.begin() as connection:
        connection.execute(_RELEASE, _held(lease))


def _require(connection: Connection, lease: Lease, if_held: Update, values: Mapping[str, int]) -> None:
    if connection.execute(if_held, {**_held(lease), **values}).rowcount == 1:
        return
    row = connection.execute(select(leases).where(leases.c.cluster_id == lease.cluster_id)).one_or_none()
    now = "unknown" if row is None else f"{_name(row.owner)} at epoch {row.epoch}{', released' if row.released else ''}"
    raise LeaseLost(f"lease of {_name(lease.owner)} at epoch {lease.epoch} was lost; the newest holder is {now}")


def _name(owner: str) -> str:
    return repr(host_and_pid(owner))


def _renewal_in(row: Row[Any]) -> Renewal | None:
    return None if row.released else Renewal(row.owner, row.epoch, row.renewed_at_ms)


def _held(lease: Lease) -> dict[str, int]:
    return {"held_cluster": lease.cluster_id, "held_epoch": lease.epoch}
