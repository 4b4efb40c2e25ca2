"""Stores the API keys of people and programs: for each key a name, its digest, and the granted roles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from service.access.actions import Action, Outcome
from service.access.credentials import StoredKey, digest_of
from service.access.principal import Grant, grant_texts, parse_grants
from service.store import audit_events
from service.store.audit_events import AuditEvent
from service.store.errors import StoreError
from service.store.schema import api_keys

_K = api_keys.c


class KeyRow(NamedTuple):
    """An API key without its digest. `revoked_at_ms` is None while the key is valid."""

    name: str
    grants: frozenset[Grant]
    created_at_ms: int
    created_by: str
    revoked_at_ms: int | None
    revoked_by: str | None


def create(engine: Engine, name: str, key: str, grants: frozenset[Grant], who: str, now_ms: int) -> None:
    """Adds the key, and a row to the audit. Raises StoreError if a valid key has this name already."""
    roles = grant_texts(grants)
    event = AuditEvent(now_ms, Action.KEY, Outcome.CREATED, who, subject=name, detail=", ".join(roles))
    try:
        with engine.begin() as connection:
            connection.execute(
                insert(api_keys).values(
                    name=name, digest=digest_of(key), roles=json.dumps(roles), created_at_ms=now_ms, created_by=who
                )
            )
            audit_events.add(connection, None, event)
    except IntegrityError:
        raise StoreError(f"there is a key {name!r} already: revoke it, or choose another name") from None


def revoke(engine: Engine, name: str, who: str, now_ms: int) -> None:
    """Revokes the key, and adds a row to the audit. Raises StoreError if no valid key has this name."""
    with engine.begin() as connection:
        ended = connection.execute(
            update(api_keys)
            .where(_K.name == name, _K.revoked_at_ms.is_(None))
            .values(revoked_at_ms=now_ms, revoked_by=who)
        )
        if not ended.rowcount:
            raise StoreError(f"there is no valid key {name!r}: `txnscope keys list` shows all")
        event = AuditEvent(now_ms, Action.KEY, Outcome.REVOKED, who, subject=name)
        audit_events.add(connection, None, event)


def read_all(connection: Connection) -> list[KeyRow]:
    """Returns all keys, revoked ones too, sorted by name; the newest of several keys with one name comes first."""
    rows = connection.execute(select(api_keys).order_by(_K.name, _K.id.desc()))
    return [
        KeyRow(row.name, _grants(row), row.created_at_ms, row.created_by, row.revoked_at_ms, row.revoked_by)
        for row in rows
    ]


def read_valid(connection: Connection) -> Sequence[StoredKey]:
    """Returns the keys that are valid now."""
    rows = connection.execute(select(api_keys).where(_K.revoked_at_ms.is_(None)))
    return [StoredKey(row.name, row.digest, _grants(row)) for row in rows]


def _grants(row: Row[tuple[object, ...]]) -> frozenset[Grant]:
    return parse_grants(json.loads(str(row.roles)))
