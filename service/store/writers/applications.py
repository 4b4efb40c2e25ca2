"""Writes the application of ids, the number of each application's ids, and the application of open findings about an
id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, Engine, bindparam, delete, exists, select, update

from service.domain.application_rules import Assigned
from service.store.lease import Lease, check
from service.store.many_rows import look_up
from service.store.schema import application_states, application_totals, findings, transactional_ids
from service.store.schema.history import ABORTED, COMMITS
from service.store.writers.history import count_ends_of_applications
from service.store.writers.id_rows import APPLICATION_STATES

_T, _F, _S, _E = transactional_ids.c, findings.c, application_states.c, application_totals.c
_ENDED: Final = (COMMITS, *ABORTED.values())
_READ: Final = ("transactional_id", "state", "application", "framework", "is_examined", *_ENDED)
_OF_ID = (
    update(transactional_ids)
    .where(_T.cluster_id == bindparam("cluster"), _T.transactional_id == bindparam("key"))
    .values(application=bindparam("belongs_to"), framework=bindparam("made_by"), is_examined=True)
)
_OF_FINDING = (
    update(findings)
    .where(_F.cluster_id == bindparam("cluster"), _F.id == bindparam("finding"))
    .values(application=bindparam("belongs_to"))
)


class ApplicationWriter:
    """Writes applications under the lease. A method that raises LeaseLost or StoreUnavailable has written nothing.
    After LeaseLost, the writer has to stop."""

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine, self._lease = engine, lease

    def assign(self, assigned: Mapping[bytes, Assigned], now_ms: int) -> None:
        """Writes the applications of these ids. The ended transactions of an id that was never examined before count
        for its application. If an id's application changes later, ended transactions do not move to the new one: no
        total ever falls, and a new rule brings no old failures into an alert."""
        cluster_id = self._lease.cluster_id
        with self._engine.begin() as connection:
            check(connection, self._lease)
            moved: Counter[tuple[str, str, int]] = Counter()
            ended: Counter[tuple[str, str]] = Counter()
            changed = []
            for row in look_up(connection, transactional_ids, _READ, cluster_id, list(assigned)):
                new = assigned[row.transactional_id]
                if row.is_examined and (row.application, row.framework) == _columns(new):
                    continue
                changed.append(row.transactional_id)
                if row.application is not None:
                    moved[row.application, row.framework, row.state] -= 1
                if new.name is not None:
                    moved[new.name, new.framework, row.state] += 1
                    if not row.is_examined:
                        ended.update({(new.name, column): row._mapping[column] for column in _ENDED})
            if not changed:
                return
            rows = [_row(cluster_id, key, assigned[key]) for key in changed]
            connection.execute(_OF_ID, rows)
            numbers = [(cluster_id, *of, number) for of, number in sorted(moved.items()) if number]
            APPLICATION_STATES.write(connection, numbers)
            count_ends_of_applications(connection, cluster_id, ended, now_ms)
            self._renew_findings(connection, {key: assigned[key] for key in changed})

    def forget(self, before_ms: int) -> None:
        """Deletes the totals of each application that has no ids and has counted nothing since `before_ms`. Deletes the
        rows of `application_states` that count no ids."""
        cluster_id = self._lease.cluster_id
        has_ids = exists().where(_S.cluster_id == _E.cluster_id, _S.application == _E.application)
        with self._engine.begin() as connection:
            check(connection, self._lease)
            connection.execute(delete(application_states).where(_S.cluster_id == cluster_id, _S.ids == 0))
            connection.execute(
                delete(application_totals).where(_E.cluster_id == cluster_id, _E.last_ms < before_ms, ~has_ids)
            )

    def _renew_findings(self, connection: Connection, changed: Mapping[bytes, Assigned]) -> None:
        is_open = (_F.cluster_id == self._lease.cluster_id, _F.resolved_at_ms.is_(None))
        about = select(_F.id, _F.transactional_id).where(*is_open, _F.transactional_id.is_not(None))
        rows = [
            {"cluster": self._lease.cluster_id, "finding": row.id, "belongs_to": changed[row.transactional_id].name}
            for row in connection.execute(about)
            if row.transactional_id in changed
        ]
        if rows:
            connection.execute(_OF_FINDING, rows)


def _columns(assigned: Assigned) -> tuple[str | None, str | None]:
    return (None, None) if assigned.name is None else (assigned.name, assigned.framework.value)


def _row(cluster_id: int, key: bytes, assigned: Assigned) -> dict[str, object]:
    application, framework = _columns(assigned)
    return {"cluster": cluster_id, "key": key, "belongs_to": application, "made_by": framework}
