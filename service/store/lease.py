"""The lease, with which one driver writes at a time. Its epoch rises with every holder, so a replaced driver cannot
write."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine, Update, select, update

from service.store.engine import LeaseLost
from service.store.many_rows import Upsert
from service.store.schema import leases

EXPIRES_AFTER_MS: Final = 10_000

_FREE = Upsert(leases)


class Lease(NamedTuple):
    """The right to write what is read of one cluster, until another epoch holds it."""

    cluster_id: int
    owner: str
    epoch: int


def acquire(engine: Engine, cluster_id: int, owner: str, now_ms: int) -> Lease | None:
    """Takes the lease if it is free, released, this owner's, or not renewed for EXPIRES_AFTER_MS; else returns None."""
    row = select(leases).where(leases.c.cluster_id == cluster_id).with_for_update()
    with engine.begin() as connection:
        _FREE.write(connection, [(cluster_id, "", 0, now_ms, True)])
        held = connection.execute(row).one()
        if not (held.released or held.owner == owner or now_ms - held.renewed_at_ms > EXPIRES_AFTER_MS):
            return None
        taken = {"owner": owner, "epoch": held.epoch + 1, "renewed_at_ms": now_ms, "released": False}
        connection.execute(update(leases).where(leases.c.cluster_id == cluster_id).values(taken))
        return Lease(cluster_id, owner, held.epoch + 1)


def check(connection: Connection, lease: Lease) -> None:
    """Raises LeaseLost if another epoch holds the lease, or it was released. Call it first in every writing
    transaction: from then on nobody can take the lease until the transaction ends. A check does not renew the lease,
    because a write does not prove that every part of the job makes progress."""
    _require(connection, lease, _if_held(lease).values(epoch=lease.epoch))


def _require(connection: Connection, lease: Lease, if_held: Update) -> None:
    if connection.execute(if_held).rowcount == 1:
        return
    row = connection.execute(select(leases).where(leases.c.cluster_id == lease.cluster_id)).one_or_none()
    now = "gone" if row is None else f"{row.owner!r} at epoch {row.epoch}{', released' if row.released else ''}"
    raise LeaseLost(f"lease of {lease.owner!r} at epoch {lease.epoch} was lost; it is {now}")


def renew(engine: Engine, lease: Lease, now_ms: int) -> None:
    """Keeps the lease for EXPIRES_AFTER_MS more. Call it only while every part of the job makes progress.

    Errors as `check`.
    """
    with engine.begin() as connection:
        _require(connection, lease, _if_held(lease).values(renewed_at_ms=now_ms))


def release(engine: Engine, lease: Lease) -> None:
    """Releases the lease, so that the next driver can take it at once; does nothing if the lease was lost already."""
    with engine.begin() as connection:
        connection.execute(_if_held(lease).values(released=True))


def _if_held(lease: Lease) -> Update:
    return update(leases).where(
        leases.c.cluster_id == lease.cluster_id, leases.c.epoch == lease.epoch, leases.c.released.is_(False)
    )
