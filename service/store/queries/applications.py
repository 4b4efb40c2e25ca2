"""Reads applications, with their ids by state, their ended transactions and the start of their oldest open transaction.
Also reads the application of an id and of a finding."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from service.domain.application_rules import kinds_in
from service.domain.applications import Framework
from service.domain.findings.finding import Finding, Subject
from service.domain.transaction_log.id_delta import Aborts
from service.domain.transaction_log.states import EXPIRED, FIRST_TIME_MS, OPEN
from service.store.escaped_text import id_key, prefix_end
from service.store.many_rows import batched
from service.store.schema import application_states, application_totals, transactional_ids
from service.store.schema.history import ABORTED, COMMITS

PREFIX_READ: Final = 5_000
"""If this many ids or more begin with a finding's prefix, the finding gets no application: the store does not check
whether all these ids belong to the same application."""

_AT_ONCE: Final = 500
_T, _S, _E = transactional_ids.c, application_states.c, application_totals.c


class ApplicationRow(NamedTuple):
    """An application. `states`: number of its ids by state, expired ids included. `kinds`: the frameworks that made the
    ids, as far as known. `commits`, `aborts`: numbers of transactions that ended since `since_ms`; `since_ms` is None
    if no transaction has ended. `oldest_open_ms`: the start of its oldest open transaction; None if no transaction is
    open."""

    name: str
    kinds: tuple[Framework, ...]
    states: dict[int, int]
    since_ms: int | None = None
    commits: int = 0
    aborts: Aborts = Aborts()
    oldest_open_ms: int | None = None

    @property
    def ids(self) -> int:
        """The number of ids that have not expired."""
        return sum(number for state, number in self.states.items() if state != EXPIRED)

    @property
    def open(self) -> int:
        return sum(number for state, number in self.states.items() if state in OPEN)

    @property
    def failed(self) -> int:
        """The number of aborts that the application did not choose itself."""
        return sum(self.aborts) - self.aborts.client

    @property
    def ended(self) -> int:
        return self.commits + sum(self.aborts)

    @property
    def failed_share(self) -> float | None:
        """The share of ended transactions that failed; None if no transaction has ended."""
        return self.failed / self.ended if self.ended else None


def all_applications(connection: Connection, cluster_id: int) -> list[ApplicationRow]:
    """Returns every application that has ids or has counted something, sorted by name."""
    return _read(connection, cluster_id)


def find_application(connection: Connection, cluster_id: int, name: str) -> ApplicationRow | None:
    """Returns the application; None if no application has this name."""
    if "\0" in name:
        return None  # no name contains NUL, and a database may refuse to compare with it
    found = _read(connection, cluster_id, name)
    return found[0] if found else None


def worst_first(rows: Iterable[ApplicationRow]) -> list[ApplicationRow]:
    """Returns the applications in this order: most failed transactions first, then most ended transactions first, then
    by name. Only the first applications get series of metrics. The order seldom changes, so the series seldom
    change."""
    return sorted(
        rows, key=lambda application_row: (-application_row.failed, -application_row.ended, application_row.name)
    )


def _read(connection: Connection, cluster_id: int, name: str | None = None) -> list[ApplicationRow]:
    def of(column: ColumnElement[str]) -> list[ColumnElement[bool]]:
        return [] if name is None else [column == name]

    states: defaultdict[str, Counter[int]] = defaultdict(Counter)
    frameworks: defaultdict[str, set[str]] = defaultdict(set)
    counted = select(_S.application, _S.framework, _S.state, _S.ids).where(
        _S.cluster_id == cluster_id, _S.ids != 0, *of(_S.application)
    )
    for application, framework, state, ids in connection.execute(counted):
        states[application][state] += ids
        frameworks[application].add(framework)
    ended = select(_E.application, _E.since_ms, _E[COMMITS], *(_E[column] for column in ABORTED.values()))
    totals = {
        application: (since_ms, commits, Aborts(*aborts))
        for application, since_ms, commits, *aborts in connection.execute(
            ended.where(_E.cluster_id == cluster_id, *of(_E.application))
        )
    }
    # a start that is no time would be the oldest for ever; the conditions also pick the index
    oldest = (
        select(_T.application, func.min(_T.started_at_ms))
        .where(
            _T.cluster_id == cluster_id,
            _T.started_at_ms.is_not(None),
            _T.started_at_ms >= FIRST_TIME_MS,
            _T.application.is_not(None),
            *of(_T.application),
        )
        .group_by(_T.application)
    )
    opened = {application: int(at_ms) for application, at_ms in connection.execute(oldest)}
    return [
        ApplicationRow(
            one,
            kinds_in(frameworks.get(one, ())),
            dict(states.get(one, {})),
            *totals.get(one, (None, 0, Aborts())),
            opened.get(one),
        )
        for one in sorted({*states, *totals})
    ]


def applications_of(connection: Connection, cluster_id: int, ids: Collection[bytes]) -> dict[bytes, str]:
    """Returns a mapping from id to its application; ids without a known application are absent."""
    found: dict[bytes, str] = {}
    asked = {id_key(transactional_id): transactional_id for transactional_id in ids}
    for some in batched(sorted(asked), _AT_ONCE):
        rows = connection.execute(
            select(_T.transactional_id, _T.application).where(
                _T.cluster_id == cluster_id, _T.transactional_id.in_(some), _T.application.is_not(None)
            )
        )
        found |= {asked[key]: application for key, application in rows}
    return found


def with_applications(connection: Connection, cluster_id: int, found: Sequence[Finding]) -> list[Finding]:
    """Returns the findings, each with the application that the store has at present for its id or prefix."""
    ids = {finding.subject.transactional_id for finding in found if finding.subject.transactional_id is not None}
    of_ids = applications_of(connection, cluster_id, ids)
    prefixes = {finding.subject.prefix for finding in found if finding.subject.prefix}
    of_prefixes = {prefix: _of_prefix(connection, cluster_id, prefix) for prefix in prefixes}
    return [replace(finding, application=_of_subject(finding.subject, of_ids, of_prefixes)) for finding in found]


def _of_subject(subject: Subject, of_ids: dict[bytes, str], of_prefixes: dict[str, str | None]) -> str | None:
    if subject.transactional_id is not None:
        return of_ids.get(subject.transactional_id)
    return None if subject.prefix is None else of_prefixes.get(subject.prefix)


def _of_prefix(connection: Connection, cluster_id: int, prefix: str) -> str | None:
    """Returns the application to which all ids that begin with the prefix belong. Returns None if there is no such
    application, or if PREFIX_READ ids or more have the prefix. Ids with `is_examined` null do not count; they
    are examined soon."""
    begin = prefix.encode(errors="surrogatepass")
    end = prefix_end(begin)
    some = (
        select(_T.application)
        .where(
            _T.cluster_id == cluster_id,
            _T.transactional_id >= begin,
            *(() if end is None else (_T.transactional_id < end,)),
            _T.is_examined.is_not(None),
        )
        .limit(PREFIX_READ)
    )
    found = connection.scalars(some).all()
    return found[0] if len(found) < PREFIX_READ and len(set(found)) == 1 else None
