"""The findings of a cluster: pages of them by filter, and one by its id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from fastapi import Query as QueryParameter
from fastapi import Request, Response
from pydantic import TypeAdapter
from sqlalchemy import Connection

from service.api.http.answers import KeptRouter, answer, answer_page
from service.api.http.fields import text_of_time
from service.api.http.paging import LIMIT, Cursor, Int64, Limit, read_place, write_place
from service.api.http.parameters import OfApplication, bytes_of
from service.api.http.state import App, known_finding
from service.api.schemas.findings import Finding, Findings, KindWord, OneFinding, SeverityWord, StatusWord
from service.api.schemas.shape import shaped
from service.domain.findings.kinds import Kind, Status
from service.store.queries import clusters, findings
from service.store.queries.findings import FindingCursor, FindingSelection
from service.store.queries.partitions import observed_at_ms

_PLACE: Final = TypeAdapter(tuple[Int64, str])

router = KeptRouter("findings")


@router.read("/clusters/{cluster}/findings", "listFindings", Findings)
def list_findings(
    request: Request,
    app: App,
    cluster: str,
    kind: Annotated[list[KindWord] | None, QueryParameter(description="Repeatable; matches any value.")] = None,
    status: Annotated[list[StatusWord] | None, QueryParameter(description="Repeatable; matches any value.")] = None,
    severity: Annotated[list[SeverityWord] | None, QueryParameter(description="Repeatable; matches any value.")] = None,
    transactional_id: Annotated[
        str | None, QueryParameter(description="Findings about this id: its bytes, percent-encoded (`+` is a space).")
    ] = None,
    topic: Annotated[str | None, QueryParameter(max_length=249, description="Only findings about this topic.")] = None,
    partition: Annotated[
        int | None, QueryParameter(ge=0, lt=2**31, description="Only findings about this partition.")
    ] = None,
    application: OfApplication = None,
    names: Annotated[
        Literal["inline", "apart"],
        QueryParameter(
            description="apart: each finding also has `words_apart`, the same sentences without names in them."
        ),
    ] = "inline",
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists findings, the last opened first, resolved ones included."""
    selection = FindingSelection(
        frozenset(kind or ()),
        frozenset(status or ()),
        frozenset(severity or ()),
        bytes_of(request, "transactional_id") if transactional_id is not None else None,
        topic,
        partition,
        application,
    )
    filters = (cluster, *(sorted(part) if isinstance(part, frozenset) else part for part in selection))
    return _page(app, cluster, selection, filters, limit, cursor, clusters.log_as_of_ms, names_apart=names == "apart")


@router.read("/clusters/{cluster}/hanging", "listHanging", Findings)
def list_hanging(
    app: App,
    cluster: str,
    application: OfApplication = None,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists transactions that no coordinator is set to end: findings `hanging_transaction` that are confirmed and not
    resolved, the last opened first. `as_of` is the time of the last sample of data partitions; the cluster's `sources`
    show how many partitions could not be judged, and why.
    """
    chosen = (frozenset({Kind.HANGING}), frozenset({Status.CONFIRMED}))
    selection = FindingSelection(*chosen, application=application)
    filters = (cluster, "hanging", application)
    return _page(app, cluster, selection, filters, limit, cursor, observed_at_ms)


@router.read("/clusters/{cluster}/findings/{finding}", "getFinding", OneFinding)
def get_finding(app: App, cluster: str, finding: str) -> Response:
    """Returns one finding. Resolved findings are kept for 31 days by default (`[keep] findings`)."""
    with app.reading(cluster) as (connection, found):
        (one,) = findings.with_full_ids(connection, found.id, [known_finding(connection, found, finding)])
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
    body = shaped(OneFinding, Finding.of(one, found.name), as_of=text_of_time(as_of_ms))
    return answer(body, as_of_ms)


def _page(
    app: App,
    cluster: str,
    selection: FindingSelection,
    filters: tuple[Any, ...],
    limit: int,
    cursor: str | None,
    as_of: Callable[[Connection, int], int | None],
    *,
    names_apart: bool = False,
) -> Response:
    """Answers with one page of findings. `as_of`: reads from the store the time at which the source of these findings
    last answered."""
    place = read_place(_PLACE, cursor, *filters)
    after = None if place is None else FindingCursor(*place)
    with app.reading(cluster) as (connection, found):
        selection = findings.named(connection, found.id, selection)
        page, next_place = findings.read_page(connection, found.id, selection, after, limit)
        page = findings.with_full_ids(connection, found.id, page)
        as_of_ms = as_of(connection, found.id)
        truncated = _truncated(connection, found.id, selection)
    items = [Finding.of(finding, found.name, names_apart=names_apart) for finding in page]
    next_cursor = None if next_place is None else write_place(next_place, *filters)
    return answer_page(Findings, items, next_cursor, as_of_ms, truncated=truncated)


def _truncated(connection: Connection, cluster_id: int, selection: FindingSelection) -> int:
    """Returns the number of conditions of the requested kinds that were not read, or got no finding, because of a
    bound. Returns 0 if all requested findings are resolved ones: a condition without a finding is never resolved."""
    if selection.statuses == {Status.RESOLVED}:
        return 0
    found = findings.truncated(connection, cluster_id)
    return sum(number for kind, number in found.items() if not selection.kinds or kind in selection.kinds)
