"""The list of findings with its filters, and the route of the page of one finding."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as QueryParameter
from pydantic import Field, TypeAdapter
from sqlalchemy import Connection

from service.api.http.answers import KeptRoute
from service.api.http.fields import API
from service.api.http.paging import Int64, read_place, write_place
from service.api.http.parameters import bytes_of, only_known
from service.api.http.state import App, known_finding
from service.api.schemas.findings import KindWord, SeverityWord, StatusWord
from service.domain.application_rules import LONGEST_NAME
from service.domain.findings.catalogue import EVENTS
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.findings.outlook import Outlook
from service.store.escaped_text import display_id
from service.store.queries import findings
from service.store.queries.findings import FindingCursor, FindingSelection
from service.views.addresses import page_of
from service.views.cluster.frame import Frame
from service.views.findings.headline import how_it_ended, story_of
from service.views.findings.subject import is_muted, outlook_of_finding
from service.web.findings.finding_page import show_finding
from service.web.shared.frame import framed
from service.web.shared.render import render

ROWS: Final = 100
RESOLVED_SHOWN: Final = 5
_DAY_MS: Final = 86_400_000
_NEVER_MS: Final = 2**62
_PLACE: Final = TypeAdapter(tuple[Annotated[int, Field(ge=0)], tuple[Int64, str] | None])
"""The content of a cursor: the number of a walk (see `_page`), and the place in the walk. The place is None at the
beginning of a walk."""

Partition = Annotated[int, Field(ge=0, lt=2**31)]

router = APIRouter(route_class=KeptRoute, include_in_schema=False, dependencies=[Depends(only_known)])


class Row(NamedTuple):
    """A row of the list. `heal`: the outlook of an open finding, else None; `ended`: how a resolved finding ended, in
    words, else ""."""

    finding: Finding
    title: str
    heal: Outlook | None
    ended: str


class Chip(NamedTuple):
    text: str
    number: int | None
    href: str
    is_chosen: bool


@router.get("/clusters/{cluster}/findings")
def get_findings(
    request: Request,
    cluster: str,
    kind: Annotated[list[KindWord | Literal[""]] | None, QueryParameter()] = None,
    status: Annotated[list[StatusWord] | None, QueryParameter()] = None,
    severity: Annotated[list[SeverityWord | Literal[""]] | None, QueryParameter()] = None,
    transactional_id: str | None = None,
    topic: Annotated[str | None, QueryParameter(max_length=249)] = None,
    partition: Annotated[Partition | Literal[""] | None, QueryParameter()] = None,
    application: Annotated[str | None, QueryParameter(max_length=LONGEST_NAME)] = None,
    cursor: str | None = None,
) -> Response:
    """Returns the page. The filters are those of REST; a filter that a form leaves empty counts as not given. Without
    `status` the page shows confirmed findings."""
    selection = FindingSelection(
        frozenset(one for one in kind or () if one),
        frozenset(status or (Status.CONFIRMED,)),
        frozenset(one for one in severity or () if one),
        bytes_of(request, "transactional_id") or None if transactional_id else None,
        topic or None,
        partition if isinstance(partition, int) else None,
        application or None,
    )
    with framed(request, cluster) as (connection, frame):
        selection = findings.named(connection, frame.cluster.id, selection)
        query = _query(selection)
        page, after = _page(connection, frame, selection, cursor)
        rows = [_row(finding) for finding in page]
        is_plain = selection == FindingSelection(statuses=frozenset({Status.CONFIRMED})) and cursor is None
        ended = [row for row in rows if not row.finding.is_open]
        all_ended = len(ended)
        if is_plain:
            ended, all_ended = _lately(connection, frame)
        return render(
            "findings.html",
            frame,
            page="findings",
            rows=sorted((row for row in rows if row.finding.is_open), key=lambda row: _worst_first(row, frame.now_ms)),
            ended=ended,
            all_ended=all_ended,
            is_plain=is_plain,
            is_first=cursor is None,
            selection=selection,
            statuses=query["status"] or (),
            events=EVENTS,
            id_text="" if selection.transactional_id is None else display_id(selection.transactional_id),
            chips=_chips(frame, selection),
            kinds=tuple(Kind),
            severities=tuple(Severity),
            after=None if after is None else page_of(frame.name, "findings", **query, cursor=after),
            json_address=API + page_of(frame.name, "findings", **query | {"status": sorted(selection.statuses)}),
        )


@router.get("/clusters/{cluster}/findings/{finding}")
def get_finding(request: Request, app: App, cluster: str, finding: str) -> Response:
    """Returns the page of a finding, also of a resolved one until it is forgotten; 404 if the store does not have the
    finding."""
    with framed(request, cluster) as (connection, frame):
        one = known_finding(connection, frame.cluster, finding)
        return show_finding(connection, frame, one, can_resolve=app.access.authenticator.may_write)


def _page(
    connection: Connection, frame: Frame, selection: FindingSelection, cursor: str | None
) -> tuple[list[Finding], str | None]:
    """Returns a page of findings and the cursor of the next page; None after the last page. The list is read in walks,
    one for each severity, the gravest first. In a walk, the finding opened last comes first. If only resolved findings
    are selected, one walk reads all selected severities."""
    filters = ("page", frame.name, *(sorted(one) if isinstance(one, frozenset) else one for one in selection))
    wanted = selection.severities or frozenset(Severity)
    is_over = selection.statuses == {Status.RESOLVED}
    walks = [wanted] if is_over else [frozenset({severity}) for severity in Severity if severity in wanted]
    begin, place = read_place(_PLACE, cursor, *filters) or (0, None)
    after = None if place is None else FindingCursor(*place)
    found: list[Finding] = []
    for number in range(begin, len(walks)):
        narrowed = selection._replace(severities=walks[number])
        left = ROWS - len(found)
        if left == 0:
            # the page is full at the end of a severity: the next page begins with the next severity
            last, _ = findings.read_page(connection, frame.cluster.id, narrowed, None, 1)
            if last:
                return found, write_place((number, None), *filters)
            continue
        page, next_ = findings.read_page(connection, frame.cluster.id, narrowed, after, left)
        found += page
        after = None
        if next_ is not None:
            return found, write_place((number, next_), *filters)
    return found, None


def _lately(connection: Connection, frame: Frame) -> tuple[list[Row], int]:
    """Returns the confirmed findings that were resolved in the last 24 hours: rows for the last RESOLVED_SHOWN of them,
    the last resolved first, and the number of all."""
    cluster_id, since_ms = frame.cluster.id, frame.now_ms - _DAY_MS
    newest = findings.resolved_last(connection, cluster_id, since_ms, RESOLVED_SHOWN)
    return [_row(finding) for finding in newest], findings.count_resolved(connection, cluster_id, since_ms)


def _row(finding: Finding) -> Row:
    heal, ended = (outlook_of_finding(finding), "") if finding.is_open else (None, how_it_ended(finding))
    return Row(finding, story_of(finding).title, heal, ended)


def _worst_first(row: Row, now_ms: int) -> tuple[bool, int, int, int, int]:
    """Returns the sort key of a row. Muted findings come last. The others are sorted by outlook, those that do not heal
    first, then by the number of blocked groups, the time left and the age."""
    order, at_ms = (9, None) if row.heal is None else (row.heal.order, row.heal.at_ms)
    return (
        is_muted(row.finding, now_ms),
        order,
        -len(row.finding.observation.blocked_groups),
        _NEVER_MS if at_ms is None else at_ms,
        row.finding.life.opened_at_ms,
    )


def _chips(frame: Frame, selection: FindingSelection) -> list[Chip]:
    counts = dict.fromkeys(Status, 0)
    for count in frame.seen.counts:
        counts[count.status] += count.findings
    query = _query(selection)
    found = []
    for text, chosen in (
        ("Open", {Status.CONFIRMED}),
        ("Candidates", {Status.CANDIDATE}),
        ("Resolved", {Status.RESOLVED}),
        ("All", set(Status)),
    ):
        named = None if chosen == {Status.CONFIRMED} else sorted(chosen)
        href = page_of(frame.name, "findings", **query | {"status": named})
        number = sum(counts[status] for status in chosen) if len(chosen) == 1 else None
        found.append(Chip(text, number, href, selection.statuses == chosen))
    return found


def _query(selection: FindingSelection) -> dict[str, Any]:
    """Returns the query parameters that select the same findings. A filter that is not set, or has its default, is
    None."""
    is_default = selection.statuses == {Status.CONFIRMED}
    return {
        "kind": sorted(selection.kinds) or None,
        "status": None if is_default else sorted(selection.statuses),
        "severity": sorted(selection.severities) or None,
        "transactional_id": selection.transactional_id,
        "topic": selection.topic,
        "partition": selection.partition,
        "application": selection.application,
    }
