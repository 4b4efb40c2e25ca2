"""Who blocks whom: blocker, partition, waiting groups, and whether it heals; worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from service.domain.findings.context import Limits
from service.domain.findings.finding import Finding
from service.domain.open_entries import COMPLETING, HANGING, NOT_KNOWN, OVERDUE, UNREPLICATED
from service.domain.partition_facts import Place
from service.domain.victims import Victim
from service.store.display import display_id
from service.store.read_judged import JudgedPartition
from service.web.heal import OF_UNKNOWN, Heal, heal_of

STOPPED_FIRST: Final = ("stopped", "unstable_offsets", "will_stop")


class Waiting(NamedTuple):
    """A group behind a partition. `to_go`: offsets until it stops; None where it has stopped."""

    group: str
    relation: str
    to_go: int | None


class Link(NamedTuple):
    """A partition whose LSO stands. `name`, `transactional_id` None: no id is known; `finding`: what tells more."""

    topic: str
    partition: int
    transactional_id: bytes | None
    name: str | None
    producer_id: int | None
    relation: str
    since_ms: int
    hidden: int
    hidden_bytes: int | None
    log_start: int
    last_stable_offset: int
    high_watermark: int
    waiting: tuple[Waiting, ...]
    heal: Heal
    finding: str | None
    why: str | None

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def who(self) -> str:
        return self.name or (f"producer id {self.producer_id}" if self.producer_id is not None else "unknown")

    @property
    def stopped(self) -> int:
        return sum(one.relation != "will_stop" for one in self.waiting)

    @property
    def tone(self) -> str:
        if self.relation == HANGING:
            return "critical"
        return "warning" if self.relation in (COMPLETING, OVERDUE, UNREPLICATED) else ""


def links(
    judged: Iterable[JudgedPartition],
    victims: Iterable[Victim],
    hanging: Mapping[tuple[str, int, int | None], Finding],
    limits: Limits,
    now_ms: int,
) -> list[Link]:
    """Sorted: does not heal, then stopped groups, then time left, then age. `hanging`: findings by topic, partition and
    start offset."""
    behind: dict[Place, list[Victim]] = {}
    for victim in victims:
        if victim.is_blocked:
            behind.setdefault(victim.behind, []).append(victim)
    found = [_link(one, behind.get((one.row.topic, one.row.partition), ()), hanging, limits, now_ms) for one in judged]
    return sorted(found, key=_worst_first)


def _worst_first(link: Link) -> tuple[int, int, int, int]:
    left_ms = link.heal.at_ms if link.heal.at_ms is not None else 2**62
    return link.heal.order, -link.stopped, left_ms, link.since_ms


def _link(
    judged: JudgedPartition,
    victims: Sequence[Victim],
    hanging: Mapping[tuple[str, int, int | None], Finding],
    limits: Limits,
    now_ms: int,
) -> Link:
    row, blocker = judged.row, judged.blocker
    owner = None if blocker is None else blocker.relation.owner
    start = None if blocker is None else blocker.entry.start_offset
    finding = hanging.get((row.topic, row.partition, start))
    heal = OF_UNKNOWN._replace(more=judged.why or "") if blocker is None else heal_of(blocker.relation, limits)
    return Link(
        topic=row.topic,
        partition=row.partition,
        transactional_id=None if owner is None else owner.transactional_id,
        name=None if owner is None else display_id(owner.transactional_id),
        producer_id=None if blocker is None else blocker.entry.producer_id,
        relation=NOT_KNOWN if blocker is None else blocker.relation.word,
        since_ms=row.stalled_since_ms or now_ms,
        hidden=max(row.high_watermark - row.last_stable_offset, 0),
        hidden_bytes=row.lag_bytes if row.read_lso == row.last_stable_offset else None,
        log_start=row.log_start,
        last_stable_offset=row.last_stable_offset,
        high_watermark=row.high_watermark,
        waiting=tuple(sorted(map(_waiting, victims), key=lambda one: (STOPPED_FIRST.index(one.relation), one.group))),
        heal=heal,
        finding=None if finding is None else finding.id,
        why=judged.why,
    )


def _waiting(victim: Victim) -> Waiting:
    to_go = None
    if victim.relation == "will_stop":
        to_go = max(victim.lso_behind - victim.offset.committed_offset, 0)
    return Waiting(victim.offset.group, victim.relation, to_go)
