"""Mutes and acknowledgements that operators set on findings.

A mute has a reason and an end. Acknowledgements are for findings that stay open until somebody acknowledges them. The
service writes mutes and acknowledgements. Only the judge writes findings, so the judge resolves acknowledged findings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from sqlalchemy import Connection, insert, select, update

from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Acknowledgement, Finding
from service.store import audit_events
from service.store.audit_events import AuditEvent
from service.store.escaped_text import display_id, printable
from service.store.schema import acknowledgements, mutes

MOST: Final = 1_000
"""Maximum number of mutes that `read_mutes` returns by default."""

_M = mutes.c


class Wish(NamedTuple):
    """A mute to be set. Exactly one of the first three fields is not None and selects the findings: the finding with
    this id; findings of transactional ids (or of a prefix of ids) whose display text begins with `prefix`; findings of
    topics that match the glob `topic`."""

    finding_id: str | None
    prefix: str | None
    topic: str | None
    until_ms: int
    reason: str

    @property
    def text(self) -> str:
        """The muted findings, in words."""
        if self.finding_id is not None:
            return f"finding {self.finding_id}"
        return f"topics {self.topic}" if self.prefix is None else f"ids that begin with {self.prefix}"

    def fits(self, finding: Finding) -> bool:
        """Returns whether the mute covers the finding. No mute covers a finding that opened at the mute's end or
        later."""
        if self.until_ms <= finding.life.opened_at_ms:
            return False
        if self.finding_id is not None:
            return finding.id == self.finding_id
        if self.topic is not None:
            return finding.subject.topic is not None and fnmatchcase(finding.subject.topic, self.topic)
        subject = finding.subject
        name = subject.prefix if subject.transactional_id is None else display_id(subject.transactional_id)
        return name is not None and name.startswith(self.prefix or "")


class Mute(NamedTuple):
    """A stored mute. `id`: the number by which requests name the mute."""

    id: int
    wish: Wish
    set_at_ms: int
    set_by: str


def set_mute(connection: Connection, cluster_id: int, wish: Wish, event: AuditEvent) -> Mute:
    """Adds the mute, and `event` to the audit with the mute's number as its subject."""
    values = wish._asdict() | {"reason": printable(wish.reason), "set_at_ms": event.at_ms, "set_by": event.who}
    added = connection.execute(insert(mutes).values(cluster_id=cluster_id, **values))
    assert added.inserted_primary_key is not None
    number = int(added.inserted_primary_key[0])
    audit_events.add(connection, cluster_id, event._replace(subject=str(number)))
    return Mute(number, wish, event.at_ms, event.who)


def end_mute(connection: Connection, cluster_id: int, number: int, event: AuditEvent) -> bool:
    """Ends the mute, and adds `event` to the audit. Returns False if no mute with this number is in effect."""
    in_effect = (_M.cluster_id == cluster_id, _M.id == number, _M.ended_at_ms.is_(None), _M.until_ms > event.at_ms)
    changed = update(mutes).where(*in_effect).values(ended_at_ms=event.at_ms, ended_by=event.who)
    if not connection.execute(changed).rowcount:
        return False
    audit_events.add(connection, cluster_id, event._replace(subject=str(number)))
    return True


def read_mutes(connection: Connection, cluster_id: int, after_ms: int, limit: int | None = MOST) -> list[Mute]:
    """Returns the mutes that end after `after_ms` and were not ended early by an operator, sorted by end; at most
    `limit` (None: all)."""
    rows = connection.execute(
        select(mutes)
        .where(_M.cluster_id == cluster_id, _M.ended_at_ms.is_(None), _M.until_ms > after_ms)
        .order_by(_M.until_ms, _M.id)
        .limit(limit)
    )
    return [
        Mute(row.id, Wish(*(row._mapping[name] for name in Wish._fields)), row.set_at_ms, row.set_by) for row in rows
    ]


def with_mutes(connection: Connection, cluster_id: int, found: Sequence[Finding]) -> list[Finding]:
    """Returns the findings with their mutes: each finding is muted until the latest end of all mutes that cover the
    finding, whether `[[rules]]` or an operator set them."""
    if not found:
        return []
    opened_ms = min(finding.life.opened_at_ms for finding in found)
    wishes = [mute.wish for mute in read_mutes(connection, cluster_id, opened_ms, limit=None)]
    return [_muted(finding, wishes) for finding in found] if wishes else list(found)


def _muted(finding: Finding, wishes: Iterable[Wish]) -> Finding:
    until_ms = max((wish.until_ms for wish in wishes if wish.fits(finding)), default=None)
    if until_ms is None or (finding.observation.muted_until_ms or 0) >= until_ms:
        return finding
    return finding.with_observed(muted_until_ms=until_ms)


_A: Final = acknowledgements.c


def acknowledge(
    connection: Connection, cluster_id: int, finding: Finding, reason: str, event: AuditEvent
) -> Acknowledgement:
    """Adds an acknowledgement of all occurrences that the finding has counted so far, and adds `event` to the audit."""
    given = Acknowledgement(event.at_ms, event.who, printable(reason))
    values = {"finding_id": finding.id, "count": finding.life.count, **given._asdict()}
    connection.execute(insert(acknowledgements).values(cluster_id=cluster_id, **values))
    audit_events.add(connection, cluster_id, event)
    return given


def with_acknowledgements(connection: Connection, cluster_id: int, found: Sequence[Finding]) -> list[Finding]:
    """Returns the findings, each with the newest acknowledgement that covers it, if there is one."""
    theirs = read_acknowledgements(
        connection, cluster_id, [finding for finding in found if finding.kind in UNTIL_ACKNOWLEDGED]
    )
    return [
        replace(finding, acknowledgement=theirs[finding.id]) if finding.id in theirs else finding for finding in found
    ]


def read_acknowledgements(
    connection: Connection, cluster_id: int, found: Collection[Finding]
) -> dict[str, Acknowledgement]:
    """Returns a mapping from finding id to the newest acknowledgement that covers all counted occurrences; findings
    without such an acknowledgement are absent. Counts are compared, not times, because the clocks of two hosts may
    differ."""
    if not found:
        return {}
    counts = {finding.id: finding.life.count for finding in found}
    rows = connection.execute(
        select(_A.finding_id, _A["count"], _A.at_ms, _A.by, _A.reason)
        .where(_A.cluster_id == cluster_id, _A.finding_id.in_(counts))
        .order_by(_A.id)
    )
    return {row[0]: Acknowledgement(*row[2:]) for row in rows if row[1] >= counts[row[0]]}
