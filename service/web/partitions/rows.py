"""Stalled partitions as pages show them: the blocker, the groups that wait, whether it heals; and what is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings import kinds
from service.domain.findings.context import limits_of
from service.domain.findings.kinds import CONFIRMED
from service.domain.findings.lifecycle import MOST_OPEN_IN_ALL
from service.domain.partitions.blocked_groups import Victim
from service.domain.partitions.open_entries import COMPLETING, OPENED, OVERDUE
from service.domain.transaction_log.limits import is_time
from service.store.queries import findings as read_findings
from service.store.queries.findings import FindingSelection
from service.store.queries.judged_partitions import JudgedEntry, JudgedPartition
from service.web.charts.ruler import Mini, mini
from service.web.partitions.blocking_chain import Link, by_id, by_key, links
from service.web.shared.frame import Frame

_BLOCKING: Final = frozenset(
    {kinds.HANGING, kinds.ADOPTED, kinds.UNREPLICATED, kinds.STUCK_COMPLETION, kinds.OVERDUE, kinds.LONG_RUNNING}
)
_OWN: Final = frozenset({OPENED, OVERDUE, COMPLETING})


class StandingRow(NamedTuple):
    """A stalled partition. `epoch`: of the producer that blocks it. `opened_ms`: start of its transaction."""

    link: Link
    epoch: int | None
    opened_ms: int | None

    @property
    def is_unknown(self) -> bool:
        return self.link.why is not None


def read_standing(
    connection: Connection, frame: Frame, judged: Sequence[JudgedPartition], victims: Iterable[Victim]
) -> list[StandingRow]:
    """Returns the rows of stalled partitions, the worst first."""
    confirmed = FindingSelection(kinds=_BLOCKING, statuses=frozenset({CONFIRMED}))
    findings, _ = read_findings.read_page(connection, frame.cluster.id, confirmed, None, MOST_OPEN_IN_ALL)
    limits = limits_of(frame.body["configs"])
    blockers = {(one.row.topic, one.row.partition): one.blocker for one in judged}
    chain = links(judged, victims, by_key(findings), limits, frame.now_ms, by_id(findings))
    return [_row(link, blockers[link.topic, link.partition]) for link in chain]


def _row(link: Link, blocker: JudgedEntry | None) -> StandingRow:
    if blocker is None:
        return StandingRow(link, None, None)
    return StandingRow(link, blocker.entry.producer_epoch, opened_ms(blocker))


def ordered(rows: Iterable[StandingRow], sort: str) -> list[StandingRow]:
    """Returns the rows in the order `sort`. `worst`: unchanged; `hidden`: most hidden records first; `since`: longest
    stalled first."""
    if sort == "hidden":
        return sorted(rows, key=lambda row: -row.link.hidden)
    if sort == "since":
        return sorted(rows, key=lambda row: row.link.since_ms)
    return list(rows)


def opened_ms(one: JudgedEntry) -> int:
    """Returns the start of the entry's transaction: as the coordinator has it if the entry belongs to its open
    transaction, else the time at which the entry was first seen."""
    owner = one.relation.owner
    if owner is not None and one.relation.word in _OWN and is_time(owner.start_ms):
        return owner.start_ms
    return one.entry.first_seen_ms


def mini_of(link: Link) -> Mini | None:
    """Returns the small ruler, drawn by the macro `mini` of ruler.html; None if nothing is hidden."""
    return mini(link.log_start, link.last_stable_offset, link.high_watermark, link.relation)
