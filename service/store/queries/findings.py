"""Reads findings for display: a page, a single finding, counts, and the confirmed or resolved findings of all
clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, false, func, select, tuple_

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Severity, Status
from service.store.escaped_text import id_key, possible_ids_of
from service.store.finding_marks import with_acknowledgements, with_mutes
from service.store.many_rows import batched
from service.store.queries.transactions import full_ids
from service.store.rows.findings import finding_if_known, findings_of
from service.store.schema import clusters, findings, findings_truncated

_F = findings.c
_IDS_AT_ONCE: Final = 500


class FindingSelection(NamedTuple):
    """Filters of a list of findings; an empty set or None selects all."""

    kinds: frozenset[Kind] = frozenset()
    statuses: frozenset[Status] = frozenset()
    severities: frozenset[Severity] = frozenset()
    transactional_id: bytes | None = None
    topic: str | None = None
    partition: int | None = None
    application: str | None = None


class FindingCursor(NamedTuple):
    """The place where a page ended."""

    opened_at_ms: int
    id: str


_KINDS: Final = frozenset(Kind)
_STATUSES: Final = frozenset(Status)


class FindingCount(NamedTuple):
    kind: Kind
    status: Status
    findings: int


def read_page(
    connection: Connection, cluster_id: int, selection: FindingSelection, after: FindingCursor | None, limit: int
) -> tuple[list[Finding], FindingCursor | None]:
    """Returns at most `limit` findings, the last opened first, and the cursor of the next page (None after the last
    page)."""
    statement = select(findings).where(_F.cluster_id == cluster_id, *_filters(selection))
    if after is not None:
        statement = statement.where(tuple_(_F.opened_at_ms, _F.id) < (after.opened_at_ms, after.id))
    rows = connection.execute(statement.order_by(_F.opened_at_ms.desc(), _F.id.desc()).limit(limit + 1)).all()
    found = _with_words_of_people(connection, cluster_id, findings_of(rows[:limit]))
    if len(rows) <= limit:
        return found, None
    last = rows[limit - 1]
    return found, FindingCursor(last.opened_at_ms, last.id)


def named(connection: Connection, cluster_id: int, selection: FindingSelection) -> FindingSelection:
    """Returns the selection with `transactional_id` replaced by the id that this text names: the first id in
    `possible_ids_of` that has a finding. If no such id has a finding, the text itself stays."""
    if selection.transactional_id is None:
        return selection
    keys = {id_key(possible_id): possible_id for possible_id in possible_ids_of(selection.transactional_id)}
    theirs = select(_F.transactional_id).where(_F.cluster_id == cluster_id, _F.transactional_id.in_(keys))
    about = set(connection.scalars(theirs))
    found = next((one for key, one in keys.items() if key in about), selection.transactional_id)
    return selection._replace(transactional_id=found)


def with_full_ids(connection: Connection, cluster_id: int, found: Iterable[Finding]) -> list[Finding]:
    """Returns the findings with whole ids in place of the keys that the store holds."""
    found = list(found)
    keys = {finding.subject.transactional_id for finding in found if finding.subject.transactional_id is not None}
    ids = full_ids(connection, cluster_id, keys)
    return [
        finding
        if (key := finding.subject.transactional_id) is None or ids[key] == key
        else finding.with_observed(subject=finding.subject._replace(transactional_id=ids[key]))
        for finding in found
    ]


def find(connection: Connection, cluster_id: int, finding_id: str) -> Finding | None:
    row = connection.execute(select(findings).where(_F.cluster_id == cluster_id, _F.id == finding_id)).one_or_none()
    found = None if row is None else finding_if_known(row)
    return None if found is None else _with_words_of_people(connection, cluster_id, [found])[0]


def longest_open(connection: Connection, cluster_id: int, kind: Kind, limit: int) -> tuple[Finding, ...]:
    """Returns at most `limit` confirmed findings of the kind, the first opened first."""
    confirmed = (_F.cluster_id == cluster_id, _F.kind == kind, _F.status == Status.CONFIRMED)
    rows = connection.execute(select(findings).where(*confirmed).order_by(_F.opened_at_ms, _F.id).limit(limit))
    return tuple(_with_words_of_people(connection, cluster_id, findings_of(rows)))


def counts(connection: Connection, cluster_id: int) -> list[FindingCount]:
    """Returns the numbers of stored findings of known kinds, by kind and status."""
    rows = connection.execute(
        select(_F.kind, _F.status, func.count())
        .where(_F.cluster_id == cluster_id)
        .group_by(_F.kind, _F.status)
        .order_by(_F.kind, _F.status)
    )
    return [FindingCount(*row) for row in rows if row.kind in _KINDS and row.status in _STATUSES]


def count(connection: Connection, cluster_id: int, selection: FindingSelection) -> int:
    """Returns the number of findings that the selection contains."""
    chosen = select(func.count()).where(_F.cluster_id == cluster_id, *_filters(selection))
    return connection.scalar(chosen) or 0


def resolved_last(connection: Connection, cluster_id: int, since_ms: int, limit: int) -> list[Finding]:
    """Returns at most `limit` of the confirmed findings that were resolved at `since_ms` or later, the last resolved
    first. Findings that only a newer version of txnscope knows are left out."""
    newest = select(findings).where(*_resolved_since(cluster_id, since_ms))
    rows = connection.execute(newest.order_by(_F.resolved_at_ms.desc(), _F.id.desc()).limit(limit))
    return _with_words_of_people(connection, cluster_id, findings_of(rows))


def count_resolved(connection: Connection, cluster_id: int, since_ms: int) -> int:
    """Returns the number of confirmed findings that were resolved at `since_ms` or later."""
    return connection.scalar(select(func.count()).where(*_resolved_since(cluster_id, since_ms))) or 0


def _resolved_since(cluster_id: int, since_ms: int) -> tuple[ColumnElement[bool], ...]:
    return _F.cluster_id == cluster_id, _F.resolved_at_ms >= since_ms, _F.confirmed_at_ms.is_not(None)


def truncated(connection: Connection, cluster_id: int) -> dict[str, int]:
    """Returns a mapping from kind to a number: the findings that were not opened, or the conditions that were not read,
    because a bound was reached. Kinds without such findings or conditions are absent."""
    t = findings_truncated.c
    rows = connection.execute(select(t.kind, t.number).where(t.cluster_id == cluster_id).order_by(t.kind))
    return {row.kind: row.number for row in rows if row.kind in _KINDS}


def present(connection: Connection, cluster_id: int, finding: Finding) -> Finding:
    """Returns the finding with the whole transactional.id of its subject, and with operators' mutes and
    acknowledgements."""
    return with_full_ids(connection, cluster_id, _with_words_of_people(connection, cluster_id, [finding]))[0]


def standing(connection: Connection) -> list[tuple[str, Finding]]:
    """Returns the confirmed findings of all clusters, each with its cluster's name, sorted by cluster and by the time
    at which they opened."""
    return _of_clusters(connection, _F.status == Status.CONFIRMED)


def resolved(connection: Connection, ids: Collection[str]) -> list[tuple[str, Finding]]:
    """Returns the resolved findings among `ids`, each with its cluster's name."""
    found = []
    for some in batched(sorted(ids), _IDS_AT_ONCE):
        found += _of_clusters(connection, _F.status == Status.RESOLVED, _F.id.in_(some))
    return found


def _of_clusters(connection: Connection, *conditions: ColumnElement[bool]) -> list[tuple[str, Finding]]:
    statement = select(clusters.c.name, *findings.c).join(clusters, clusters.c.id == _F.cluster_id).where(*conditions)
    rows = connection.execute(statement.order_by(_F.cluster_id, _F.opened_at_ms, _F.id)).all()
    found = []
    for cluster_id, theirs in groupby(rows, key=lambda row: row._mapping[_F.cluster_id]):
        of_cluster = list(theirs)
        with_marks = _with_words_of_people(connection, cluster_id, findings_of(of_cluster))
        found += [
            (of_cluster[0][0], with_full_id) for with_full_id in with_full_ids(connection, cluster_id, with_marks)
        ]
    return found


def _with_words_of_people(connection: Connection, cluster_id: int, found: list[Finding]) -> list[Finding]:
    return with_acknowledgements(connection, cluster_id, with_mutes(connection, cluster_id, found))


def _filters(selection: FindingSelection) -> Iterable[ColumnElement[bool]]:
    for column, wanted in (
        (_F.kind, selection.kinds),
        (_F.status, selection.statuses),
        (_F.severity, selection.severities),
    ):
        if wanted:
            yield column.in_(sorted(wanted))
    if selection.transactional_id is not None:
        yield _F.transactional_id == id_key(selection.transactional_id)
    if selection.topic is not None:
        yield _F.topic == selection.topic
    if selection.partition is not None:
        yield _F.partition == selection.partition
    if selection.application is not None:
        # no name contains NUL, and a database may refuse to compare with it
        yield false() if "\0" in selection.application else _F.application == selection.application
