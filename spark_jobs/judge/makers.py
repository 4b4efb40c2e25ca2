"""Looks the makers of transactional.ids up in the store, for findings whose words depend on the framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from sqlalchemy import Connection

from service.domain.applications import Application, application_of, may_be_two_phase, sibling_names
from service.store.queries.applications import behaviours

IDS_AT_ONCE: Final = 50
"""Ids that are looked up in a round, with some ten siblings each."""

KEPT_MS: Final = 60_000


class Named(Protocol):
    """An id with its name, as `IdState` and `Event` have it."""

    @property
    def transactional_id(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def timeout_ms(self) -> int: ...


class Makers:
    """Keeps the makers of ids for KEPT_MS: long enough to save work, short enough to learn from new siblings."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._kept: dict[bytes, tuple[int, Application]] = {}

    def of(self, connection: Connection, ids: Iterable[Named], now_ms: int) -> Mapping[bytes, Application]:
        """Returns the makers of ids that a two-phase sink may have made, by id; other ids are absent, and so are those
        beyond the first IDS_AT_ONCE that are not kept."""
        self._kept = {one: kept for one, kept in self._kept.items() if now_ms - kept[0] < KEPT_MS}
        wanted = {one.transactional_id: one for one in ids if may_be_two_phase(one.name, one.timeout_ms)}
        for one in [one for key, one in wanted.items() if key not in self._kept][:IDS_AT_ONCE]:
            self._kept[one.transactional_id] = now_ms, self._look_up(connection, one)
        return {key: self._kept[key][1] for key in wanted if key in self._kept}

    def _look_up(self, connection: Connection, one: Named) -> Application:
        names = (one.name, *sibling_names(one.name))
        found = {b.name: b for b in behaviours(connection, self._cluster_id, [name.encode() for name in names])}
        own = found.get(one.name)
        return Application() if own is None else application_of(own, found.values())
