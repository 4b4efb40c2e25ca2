"""The page of one finding: verdict, facts, what to do, place, groups that wait, evidence. Blocks without data are left
out."""

from __future__ import annotations

from typing import Final, NamedTuple

from fastapi import Response
from sqlalchemy import Connection

from service.domain.doctor.acls import Grant, grant_for
from service.domain.findings.catalogue import EVENTS, UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Evidence, Finding
from service.domain.findings.kinds import Kind, Status
from service.domain.partitions.facts import LogPlace
from service.domain.transaction_log.states import NAMES, TOPIC, TWO_PHASE_TIMEOUT_MS
from service.views import words
from service.views.addresses import partition_page, transaction_page
from service.views.cluster.frame import Frame
from service.views.findings.headline import how_it_ended, story_of, what_is_left, who_of
from service.views.findings.plan import plan_of
from service.views.findings.subject import about, is_muted, outlook_of_finding
from service.views.grants import bootstrap_of, grant_of_groups
from service.web.findings.forms import CHOICES
from service.web.findings.place import HELD_READ, Where, where_of
from service.web.shared.render import render

MOST_FACTS: Final = 6


class Fact(NamedTuple):
    """A fact about the finding. If `since_ms` is given, the number is an age that counts up from this time. `href`: the
    page to which the number links."""

    label: str
    number: str
    context: str
    since_ms: int | None = None
    tone: str = ""
    href: str | None = None


class Line(NamedTuple):
    """A line of evidence. `href`: the page that explains the line's record; None if there is no such page."""

    evidence: Evidence
    href: str | None


def show_finding(connection: Connection, frame: Frame, finding: Finding, *, can_resolve: bool) -> Response:
    where = where_of(connection, frame.cluster.id, frame.name, finding)
    heal = outlook_of_finding(finding) if finding.status == Status.CONFIRMED else None
    bootstrap = bootstrap_of(frame.seen.brokers)
    plan = plan_of(finding, frame.name, _grant(finding), bootstrap, can_resolve=can_resolve)
    return render(
        "finding.html",
        frame,
        page="findings",
        finding=finding,
        story=story_of(finding),
        heal=heal,
        facts=_facts(finding, where, frame)[: MOST_FACTS - (heal is not None)],
        plan=plan if finding.is_open else None,
        can_resolve=can_resolve,
        mute_choices=CHOICES,
        is_muted=is_muted(finding, frame.now_ms),
        stays=finding.kind in UNTIL_ACKNOWLEDGED,
        ended=how_it_ended(finding),
        left=what_is_left(finding) if finding.status == Status.RESOLVED else "",
        where=where,
        held_read=HELD_READ,
        place=_place_of(finding),
        about=about(finding, frame.name),
        evidence=[
            _line(one, frame.name) for one in sorted(finding.observation.evidence, key=lambda evidence: evidence.at_ms)
        ],
        unwatched_groups=() if where.groups else finding.observation.blocked_groups,
    )


def _place_of(finding: Finding) -> str | None:
    subject = finding.subject
    return None if subject.topic is None or subject.partition is None else f"{subject.topic}-{subject.partition}"


def _line(evidence: Evidence, cluster: str) -> Line:
    if not isinstance(evidence.source, LogPlace) or evidence.source.topic == TOPIC:
        return Line(evidence, None)
    return Line(evidence, partition_page(cluster, *evidence.source))


def _grant(finding: Finding) -> Grant | None:
    """Returns the permission that would close the coverage gap that the finding reports. Returns None if the finding
    is of another kind, or if no permission would close the gap."""
    if finding.kind != Kind.COVERAGE_GAP:
        return None
    return grant_for(finding.observation.reason) or grant_of_groups([finding])


def _facts(finding: Finding, where: Where, frame: Frame) -> list[Fact]:
    tone = "critical" if finding.kind == Kind.HANGING and finding.status == Status.CONFIRMED else ""
    found = [_age(finding, where, frame.now_ms, tone)]
    if finding.kind in EVENTS:
        last = f"last at {words.clock(finding.life.last_seen_ms, frame.now_ms)}"
        found.append(Fact("Happened", "once" if finding.life.count == 1 else f"{finding.life.count:,} times", last))
    elif finding.life.count > 1:
        found.append(Fact("Concerns", words.plural(finding.life.count, "id"), "ids in this finding now"))
    found += _waiting(finding, where)
    found += _of_partition(where)
    found += _owner(finding, where, frame)
    return found


def _age(finding: Finding, where: Where, now_ms: int, tone: str) -> Fact:
    if finding.life.resolved_at_ms is not None:
        lasted = words.duration(finding.life.resolved_at_ms - finding.life.opened_at_ms)
        return Fact(
            "Lasted", lasted, f"{words.exact(finding.life.opened_at_ms)} to {words.exact(finding.life.resolved_at_ms)}"
        )
    stands_ms = None if where.judged is None else where.judged.row.stalled_since_ms
    if stands_ms is not None and finding.kind not in EVENTS | {Kind.ADOPTED}:
        return Fact("LSO stalled for", "", f"since {words.clock(stands_ms, now_ms)}", stands_ms, tone)
    opened = words.clock(finding.life.opened_at_ms, now_ms)
    return Fact("Known for", "", f"since {opened}", finding.life.opened_at_ms)


def _waiting(finding: Finding, where: Where) -> list[Fact]:
    blocked = [group for group in where.groups if group.is_blocked]
    if blocked:
        names = len({group.offset.group for group in blocked})
        later = names - len({group.offset.group for group in blocked if group.to_go is None})
        text = "judged by their progress" + f"; {later} may stop later" * bool(later)
        return [Fact("Groups waiting", words.plural(names, "group"), text)]
    if finding.observation.blocked_groups:
        return [
            Fact("Groups waiting", words.plural(len(finding.observation.blocked_groups), "group"), "at the last sample")
        ]
    if where.judged is not None or where.held:
        return [Fact("Groups waiting", "none", "no group is known to wait")]
    return []


def _of_partition(where: Where) -> list[Fact]:
    if where.judged is None:
        return []
    row = where.judged.row
    found = []
    if where.hidden:
        size = "" if where.hidden_bytes is None else f", {words.size(where.hidden_bytes)}"
        found.append(Fact("Hidden from read_committed", words.count(where.hidden), f"offsets{size}"))
    if row.leader >= 0:
        found.append(Fact("Leader", f"broker {row.leader}", f"leader epoch {row.leader_epoch}"))
    return found


def _owner(finding: Finding, where: Where, frame: Frame) -> list[Fact]:
    id_, row = finding.subject.transactional_id, where.row
    if id_ is None and finding.subject.producer_id is None:
        return []
    named = finding.subject if row is None or row.record.producer_id < 0 else row.record
    pair = "" if named.producer_id is None else f"producer id {named.producer_id}, epoch {named.producer_epoch}"
    href = None if id_ is None else transaction_page(frame.name, id_)
    found = [Fact("Producer", who_of(finding), pair, href=href)]
    if row is not None:
        timeout = f"timeout {words.duration(row.timeout_ms)}" if row.timeout_ms > 0 else ""
        if row.timeout_ms == TWO_PHASE_TIMEOUT_MS:
            timeout = "no timeout: two-phase commit"
        found.append(Fact("State now", NAMES[row.state], timeout))
    return found
