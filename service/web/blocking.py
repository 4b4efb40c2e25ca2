"""Which ids hang, and which groups wait behind what they have open."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import CONFIRMED, HANGING
from service.domain.findings.lifecycle import MOST_OPEN
from service.domain.groups_behind import GroupsBehind
from service.domain.partitions.facts import Place
from service.store.id_key import id_key
from service.store.queries import findings, partitions
from service.store.queries.blocked_groups import read_victims
from service.store.queries.findings import FindingSelection
from service.store.queries.judged_partitions import judge

_PARTITIONS_JUDGED: Final = 50


class Blocking(NamedTuple):
    """By the id's key: confirmed findings of what hangs, and the groups that its open transaction blocks."""

    hanging: Mapping[bytes, Sequence[Finding]]
    groups: Mapping[bytes, Sequence[str]]


def read_blocking(connection: Connection, cluster_id: int, places: Collection[Place]) -> Blocking:
    """`places`: the partitions that the open transactions in question list."""
    selection = FindingSelection(frozenset({HANGING}), frozenset({CONFIRMED}))
    found, _ = findings.read_page(connection, cluster_id, selection, None, MOST_OPEN)
    hanging: dict[bytes, list[Finding]] = {}
    for one in found:
        if one.subject.transactional_id is not None:
            hanging.setdefault(id_key(one.subject.transactional_id), []).append(one)
    return Blocking(hanging, _groups(connection, cluster_id, places) if places else {})


def _groups(connection: Connection, cluster_id: int, places: Collection[Place]) -> dict[bytes, list[str]]:
    victims = [one for one in read_victims(connection, cluster_id) if one.is_blocked and one.behind in places]
    waiting = GroupsBehind(victims)
    behind = sorted({one.behind for one in victims})[:_PARTITIONS_JUDGED]
    rows = [partitions.find(connection, cluster_id, *place) for place in behind]
    groups: dict[bytes, set[str]] = {}
    for one in judge(connection, cluster_id, [row for row in rows if row is not None]):
        owner = None if one.blocker is None else one.blocker.relation.owner
        if one.blocker is not None and owner is not None:
            names = waiting.waiting([one.blocker.entry.place], one.blocker.entry.producer_id)
            groups.setdefault(id_key(owner.transactional_id), set()).update(names)
    return {key: sorted(names) for key, names in groups.items()}
