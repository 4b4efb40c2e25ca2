"""The blocking chain: for each stalled partition the blocker, the waiting groups, and whether it heals; worst first."""

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
from service.domain.partitions.open_entries import Owner, RelationKind
from service.domain.reasons.reason import text_of
from service.domain.transaction_log import states
from service.domain.transaction_log.known_log import Limits
from service.domain.worlds.verdict import Decided
from service.store.escaped_text import display_id, id_key
from service.store.queries import findings, partitions
from service.store.queries.findings import FindingSelection
from service.store.queries.partitions import read_affected_groups
from service.views.partitions.judged import JudgedPartition, judge

STOPPED_FIRST: Final = (GroupRelation.STOPPED, GroupRelation.UNSTABLE_OFFSETS, GroupRelation.WILL_STOP)

Key = tuple[str, int, int | None]
"""Topic, partition and start offset of an entry."""

_OF_PLACE: Final = frozenset(kind for kind in REPORTING.values() if CATALOGUE[kind].is_about_entry)
_OF_ID: Final = tuple(kind for kind in REPORTING.values() if kind not in _OF_PLACE)


class Waiting(NamedTuple):
    """A group that a partition blocks, or will block. `to_go`: offsets until the group stops; None if it has."""

    group: str
    relation: GroupRelation
    to_go: int | None


class Link(NamedTuple):
    """A stalled partition with its blocker. `name`, `transactional_id`: of the blocker, None if no id is known.
    `finding`: the id of the finding that has more about the blocker.

    `leader`: of the partition, below 0 if there is none. `state`: set if the coordinator is completing the blocker's
    transaction, one of Kafka's states after "in" or "stuck in". `decision`: of the finding, see `Finding`;
    `has_command`: the finding has a command to paste. `is_muted`: the owner of the finding has muted it for now.
    """

    topic: str
    partition: int
    transactional_id: bytes | None
    name: str | None
    producer_id: int | None
    relation: RelationKind
    since_ms: int
    hidden: int
    hidden_bytes: int | None
    log_start: int
    last_stable_offset: int
    high_watermark: int
    waiting: tuple[Waiting, ...]
    heal: Outlook
    finding: str | None
    why: str | None
    leader: int = -1
    state: str | None = None
    decision: Decided | None = None
    has_command: bool = False
    is_muted: bool = False

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def who(self) -> str:
        return self.name or (f"producer id {self.producer_id}" if self.producer_id is not None else "unknown")

    @property
    def stopped(self) -> int:
        return sum(one.relation != GroupRelation.WILL_STOP for one in self.waiting)

    @property
    def tone(self) -> str:
        if self.relation == RelationKind.HANGING:
            return "critical"
        return (
            "warning"
            if self.relation in (RelationKind.COMPLETING, RelationKind.OVERDUE, RelationKind.UNREPLICATED_MARKER)
            else ""
        )


def by_key(findings: Iterable[Finding]) -> dict[Key, Finding]:
    """Returns the findings about entries, by partition and start offset."""
    about = ((one, one.subject) for one in findings if one.kind in _OF_PLACE)
    places = ((one, at) for one, at in about if at.topic is not None and at.partition is not None)
    return {(at.topic or "", at.partition or 0, at.start_offset): one for one, at in places}


def by_id(findings: Iterable[Finding]) -> dict[bytes, Finding]:
    """Returns the gravest finding about an open transaction of each id, by id."""
    found: dict[bytes, Finding] = {}
    for kind in reversed(_OF_ID):
        of_kind = (one for one in findings if one.kind == kind)
        found |= {one.subject.transactional_id: one for one in of_kind if one.subject.transactional_id is not None}
    return found


def links(
    judged: Iterable[JudgedPartition],
    victims: Iterable[AffectedGroup],
    hanging: Mapping[Key, Finding],
    limits: Limits,
    now_ms: int,
    of_ids: Mapping[bytes, Finding] | None = None,
) -> list[Link]:
    """Returns a link for each partition, sorted: those that do not heal first, then by stopped groups, time left and
    age; muted ones come last.

    `hanging`, `of_ids`: findings as `by_key` and `by_id` return them.
    """
    behind: dict[TopicPartition, list[AffectedGroup]] = {}
    for victim in victims:
        if victim.is_blocked:
            behind.setdefault(victim.stalled_partition, []).append(victim)
    found = [
        _link(one, behind.get((one.row.topic, one.row.partition), ()), hanging, of_ids or {}, limits, now_ms)
        for one in judged
    ]
    return sorted(found, key=_worst_first)


def _worst_first(link: Link) -> tuple[bool, int, int, int, int]:
    left_ms = link.heal.at_ms if link.heal.at_ms is not None else 2**62
    return link.is_muted, link.heal.order, -link.stopped, left_ms, link.since_ms


def _link(
    judged: JudgedPartition,
    victims: Sequence[AffectedGroup],
    hanging: Mapping[Key, Finding],
    of_ids: Mapping[bytes, Finding],
    limits: Limits,
    now_ms: int,
) -> Link:
    row, blocker = judged.row, judged.blocker
    owner = None if blocker is None else blocker.relation.owner
    start = None if blocker is None else blocker.entry.start_offset
    relation = RelationKind.UNKNOWN if blocker is None else blocker.relation.kind
    finding = hanging.get((row.topic, row.partition, start))
    if finding is None and owner is not None and relation != RelationKind.HANGING:
        finding = of_ids.get(owner.transactional_id)
    heal = OF_UNKNOWN._replace(more=str(judged.why or ""))
    if blocker is not None:
        heal = outlook_of(blocker.relation, limits, row.leader)
    muted_until_ms = None if finding is None else finding.observation.muted_until_ms
    return Link(
        topic=row.topic,
        partition=row.partition,
        transactional_id=None if owner is None else owner.transactional_id,
        name=None if owner is None else display_id(owner.transactional_id),
        producer_id=None if blocker is None else blocker.entry.producer_id,
        relation=relation,
        since_ms=row.stalled_since_ms or now_ms,
        hidden=row.hidden_records,
        hidden_bytes=row.hidden_bytes,
        log_start=row.log_start,
        last_stable_offset=row.last_stable_offset,
        high_watermark=row.high_watermark,
        waiting=tuple(sorted(map(_waiting, victims), key=lambda one: (STOPPED_FIRST.index(one.relation), one.group))),
        heal=heal,
        finding=None if finding is None else finding.id,
        why=text_of(judged.why),
        leader=row.leader,
        state=_state(owner, finding) if relation == RelationKind.COMPLETING else None,
        decision=None if finding is None else finding.observation.decision,
        has_command=finding is not None and finding.command is not None,
        is_muted=muted_until_ms is not None and muted_until_ms > now_ms,
    )


def _state(owner: Owner | None, finding: Finding | None) -> str | None:
    is_stuck = finding is not None and finding.kind == Kind.STUCK_COMPLETION
    return None if owner is None else f"{'stuck in' if is_stuck else 'in'} {states.NAMES[owner.state]}"


def _waiting(victim: AffectedGroup) -> Waiting:
    to_go = None
    if victim.relation == GroupRelation.WILL_STOP:
        to_go = max(victim.stalled_lso - victim.offset.committed_offset, 0)
    return Waiting(victim.offset.group, victim.relation, to_go)


_PARTITIONS_JUDGED: Final = 50


class Blocking(NamedTuple):
    """By the id's key, the id's confirmed hanging findings, and the groups that its open transaction blocks."""

    hanging: Mapping[bytes, Sequence[Finding]]
    groups: Mapping[bytes, Sequence[str]]


def read_blocking(connection: Connection, cluster_id: int, places: Collection[TopicPartition]) -> Blocking:
    """Reads the hanging findings of all ids, and the groups blocked on `places`: the partitions that the open
    transactions in question list."""
    selection = FindingSelection(frozenset({Kind.HANGING}), frozenset({Status.CONFIRMED}))
    found, _ = findings.read_page(connection, cluster_id, selection, None, MOST_OPEN)
    hanging: dict[bytes, list[Finding]] = {}
    for one in found:
        if one.subject.transactional_id is not None:
            hanging.setdefault(id_key(one.subject.transactional_id), []).append(one)
    return Blocking(hanging, _groups(connection, cluster_id, places) if places else {})


def _groups(connection: Connection, cluster_id: int, places: Collection[TopicPartition]) -> dict[bytes, list[str]]:
    victims = [
        one
        for one in read_affected_groups(connection, cluster_id)
        if one.is_blocked and one.stalled_partition in places
    ]
    waiting = BlockedGroupIndex(victims)
    behind = sorted({one.stalled_partition for one in victims})[:_PARTITIONS_JUDGED]
    rows = [partitions.find(connection, cluster_id, *place) for place in behind]
    groups: dict[bytes, set[str]] = {}
    for one in judge(connection, cluster_id, [row for row in rows if row is not None]):
        owner = None if one.blocker is None else one.blocker.relation.owner
        if one.blocker is not None and owner is not None:
            names = waiting.waiting_for([one.blocker.entry.topic_partition], one.blocker.entry.producer_id)
            groups.setdefault(id_key(owner.transactional_id), set()).update(names)
    return {key: sorted(names) for key, names in groups.items()}
