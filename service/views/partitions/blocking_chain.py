"""The blocking chain: for each stalled partition its blocker, the waiting groups and the outlook; the worst first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.catalogue import CATALOGUE, REPORTING
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import MOST_OPEN
from service.domain.findings.outlook import OF_UNKNOWN, Outlook, outlook_of
from service.domain.partitions.blocked_groups import AffectedGroup, BlockedGroupIndex, GroupRelation
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.open_entries import RelationKind
from service.domain.partitions.state import PartitionState
from service.domain.transaction_log import states
from service.domain.transaction_log.known_log import Limits
from service.store.escaped_text import display_id, id_key
from service.store.queries import findings, partitions
from service.store.queries.findings import FindingSelection
from service.store.queries.partitions import read_affected_groups
from service.views.partitions.judged import JudgedPartition, judge

WAITING_FIRST: Final = (
    GroupRelation.STOPPED,
    GroupRelation.UNSTABLE_OFFSETS,
    GroupRelation.WILL_STOP,
    GroupRelation.UNKNOWN,
    GroupRelation.READS_UNCOMMITTED,
    GroupRelation.INACTIVE,
)

Key = tuple[str | None, int | None, int | None]
"""Topic, partition and start offset of an entry."""

_OF_PLACE: Final = frozenset(kind for kind in REPORTING.values() if CATALOGUE[kind].is_about_entry)
_OF_ID: Final = tuple(kind for kind in REPORTING.values() if kind not in _OF_PLACE)


class Link(NamedTuple):
    """An entry of the blocking chain: a stalled partition with its blocker. `waiting`: the groups that the blocker
    blocks, or will block. `heal`: the outlook. `finding`: the finding about the blocker, if there is one. `is_muted`:
    True if this finding is muted at present."""

    judged: JudgedPartition
    waiting: tuple[AffectedGroup, ...] = ()
    heal: Outlook = OF_UNKNOWN
    finding: Finding | None = None
    is_muted: bool = False

    @property
    def row(self) -> PartitionState:
        return self.judged.row

    @property
    def relation(self) -> RelationKind:
        return self.judged.relation

    @property
    def place(self) -> str:
        return f"{self.row.topic}-{self.row.partition}"

    @property
    def since_ms(self) -> int:
        return self.row.stalled_since_ms or self.row.observed_at_ms

    @property
    def who(self) -> str:
        """Returns the blocker's name for people: its transactional.id or producer id, or "unknown"."""
        if (owner := self.judged.owner) is not None:
            return display_id(owner.transactional_id)
        blocker = self.judged.blocker
        return "unknown" if blocker is None else f"producer id {blocker.entry.producer_id}"

    @property
    def state(self) -> str | None:
        """Returns the state of the blocker's id, such as "in PrepareCommit" or "stuck in PrepareCommit"; None unless
        the coordinator is completing the blocker's transaction."""
        if self.relation != RelationKind.COMPLETING or self.judged.owner is None:
            return None
        is_stuck = self.finding is not None and self.finding.kind == Kind.STUCK_COMPLETION
        return f"{'stuck in' if is_stuck else 'in'} {states.NAMES[self.judged.owner.state]}"

    @property
    def stopped(self) -> int:
        return sum(group.to_go is None for group in self.waiting)

    @property
    def tone(self) -> str:
        return _TONES.get(self.relation, "")


_TONES: Final = {RelationKind.HANGING: "critical"} | dict.fromkeys(
    (RelationKind.COMPLETING, RelationKind.OVERDUE, RelationKind.UNREPLICATED_MARKER), "warning"
)


def _by_place(findings: Iterable[Finding]) -> dict[Key, Finding]:
    """Returns a mapping from the key of an entry (its topic, partition and start offset) to the finding about it."""
    about = ((finding, finding.subject) for finding in findings if finding.kind in _OF_PLACE)
    return {(at.topic, at.partition, at.start_offset): finding for finding, at in about}


def _by_id(findings: Iterable[Finding]) -> dict[bytes, Finding]:
    """Returns a mapping from id to the gravest finding about the open transaction of the id."""
    found: dict[bytes, Finding] = {}
    for kind in reversed(_OF_ID):
        of_kind = (finding for finding in findings if finding.kind == kind)
        found |= {
            finding.subject.transactional_id: finding
            for finding in of_kind
            if finding.subject.transactional_id is not None
        }
    return found


def links(
    judged: Iterable[JudgedPartition],
    affected: Iterable[AffectedGroup],
    findings: Sequence[Finding],
    limits: Limits,
    now_ms: int,
) -> list[Link]:
    """Returns an entry of the blocking chain for each partition. Muted entries come last. The others are sorted by
    outlook, those that do not heal first. Entries with the same outlook are sorted by the number of stopped groups, the
    time left and the age. `findings`: the confirmed findings."""
    behind: dict[TopicPartition, list[AffectedGroup]] = {}
    for group in affected:
        if group.is_blocked:
            behind.setdefault(group.stalled_partition, []).append(group)
    at_places, of_ids = _by_place(findings), _by_id(findings)
    found = []
    for partition in judged:
        finding = _finding(partition, at_places, of_ids)
        heal = OF_UNKNOWN._replace(more=str(partition.why or ""))
        if partition.blocker is not None:
            heal = outlook_of(partition.blocker.relation, limits, partition.row.leader)
        is_muted = finding is not None and (finding.observation.muted_until_ms or 0) > now_ms
        waiting = tuple(waiting_first(behind.get(partition.row.topic_partition, ())))
        found.append(Link(partition, waiting, heal, finding, is_muted))
    return sorted(found, key=_worst_first)


def _finding(
    judged: JudgedPartition, at_places: Mapping[Key, Finding], of_ids: Mapping[bytes, Finding]
) -> Finding | None:
    """Returns the finding about the blocker's entry. If there is no such finding, and the blocker does not hang,
    returns the finding about the open transaction of the blocker's id. Returns None if there is neither finding."""
    start = None if judged.blocker is None else judged.blocker.entry.start_offset
    found = at_places.get((*judged.row.topic_partition, start))
    if found is None and judged.owner is not None and judged.relation != RelationKind.HANGING:
        return of_ids.get(judged.owner.transactional_id)
    return found


def _worst_first(link: Link) -> tuple[bool, int, int, int, int]:
    left_ms = link.heal.at_ms if link.heal.at_ms is not None else 2**62
    return link.is_muted, link.heal.order, -link.stopped, left_ms, link.since_ms


def waiting_first(groups: Iterable[AffectedGroup]) -> list[AffectedGroup]:
    """Returns the groups sorted by relation, in the order of WAITING_FIRST, then by name."""
    return sorted(groups, key=lambda group: (WAITING_FIRST.index(group.relation), group.key))


_PARTITIONS_JUDGED: Final = 50


class Blocking(NamedTuple):
    """Two mappings, both from the key (`id_key`) of an id. The values of `hanging` are the confirmed findings about
    hanging transactions of the id. The values of `groups` are the groups that the open transaction of the id blocks."""

    hanging: Mapping[bytes, Sequence[Finding]]
    groups: Mapping[bytes, Sequence[str]]


def read_blocking(connection: Connection, cluster_id: int, places: Collection[TopicPartition]) -> Blocking:
    """Reads the confirmed findings about hanging transactions (at most MOST_OPEN), and the groups that are blocked on
    the partitions in `places`: the partitions of the open transactions that a page shows. Judges at most
    _PARTITIONS_JUDGED partitions. Groups that are blocked on other partitions are left out."""
    selection = FindingSelection(frozenset({Kind.HANGING}), frozenset({Status.CONFIRMED}))
    found, _ = findings.read_page(connection, cluster_id, selection, None, MOST_OPEN)
    hanging: dict[bytes, list[Finding]] = {}
    for finding in found:
        if finding.subject.transactional_id is not None:
            hanging.setdefault(id_key(finding.subject.transactional_id), []).append(finding)
    return Blocking(hanging, _groups(connection, cluster_id, places) if places else {})


def _groups(connection: Connection, cluster_id: int, places: Collection[TopicPartition]) -> dict[bytes, list[str]]:
    affected = [
        affected_group
        for affected_group in read_affected_groups(connection, cluster_id)
        if affected_group.is_blocked and affected_group.stalled_partition in places
    ]
    waiting = BlockedGroupIndex(affected)
    behind = sorted({group.stalled_partition for group in affected})[:_PARTITIONS_JUDGED]
    rows = [partitions.find(connection, cluster_id, *place) for place in behind]
    groups: dict[bytes, set[str]] = {}
    for partition in judge(connection, cluster_id, [row for row in rows if row is not None]):
        if partition.blocker is not None and partition.owner is not None:
            names = waiting.waiting_for([partition.blocker.entry.topic_partition], partition.blocker.entry.producer_id)
            groups.setdefault(id_key(partition.owner.transactional_id), set()).update(names)
    return {key: sorted(names) for key, names in groups.items()}
