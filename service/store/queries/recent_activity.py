"""Reads the recent activity of a whole cluster: ends by minute, aborts by cause, median durations, ended findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Status
from service.domain.transaction_log.minutes import COUNTED_AS, MINUTE_MS
from service.domain.transaction_log.outcomes import BOUNDS_MS, MARKER, OPEN
from service.domain.transaction_log.states import PREPARE_ABORT
from service.store.rows.findings import finding_of
from service.store.schema import cluster_minutes, counters, findings, transitions
from service.store.schema.history import SUM

MOST_STEPS: Final = 50_000
"""Maximum number of aborts for which the causes are looked up (0.1 s of queries). Above this many only the total is
reported."""

_C, _F, _M, _T = counters.c, findings.c, cluster_minutes.c, transitions.c


class EndedMinute(NamedTuple):
    """The numbers of transactions whose end was read in one minute."""

    minute_ms: int
    commits: int
    aborts: int


class Medians(NamedTuple):
    """Medians, as upper bounds of buckets: half of the committed transactions were open for at most `open_ms`, and half
    of all markers took at most `marker_ms`. None where nothing was counted, or the median lies above the last bound."""

    open_ms: int | None
    marker_ms: int | None


def ended_minutes(connection: Connection, cluster_id: int, from_ms: int, to_ms: int) -> list[EndedMinute]:
    """Returns the minutes that begin in [from_ms, to_ms) and have a row, oldest first."""
    rows = connection.execute(
        select(_M.minute_ms, _M.commits, _M.aborts)
        .where(_M.cluster_id == cluster_id, _M.minute_ms >= from_ms, _M.minute_ms < to_ms)
        .order_by(_M.minute_ms)
    )
    return [EndedMinute(*row) for row in rows]


def aborts_by_cause(
    connection: Connection, cluster_id: int, from_ms: int, to_ms: int
) -> dict[tuple[int, str], int] | None:
    """Returns the numbers of aborts that the log decided in [from_ms, to_ms), by minute and the word under which they
    count; None if there are more than MOST_STEPS. Aborts from before the first start count in no minute and are left
    out."""
    some = (
        select((_T.at_ms - _T.at_ms % MINUTE_MS).label("minute_ms"), _T.cause)
        .where(
            _T.cluster_id == cluster_id,
            _T.at_ms >= from_ms,
            _T.at_ms < to_ms,
            _T.to_state == PREPARE_ABORT,
            _T.cause.in_(COUNTED_AS),
            _T.counted,
        )
        .limit(MOST_STEPS + 1)
        .subquery()
    )
    found_in = some.c.minute_ms, some.c.cause
    rows = connection.execute(select(*found_in, func.count()).group_by(*found_in))
    found = {(minute, COUNTED_AS[cause]): number for minute, cause, number in rows}
    return None if sum(found.values()) > MOST_STEPS else found


def medians(connection: Connection, cluster_id: int) -> Medians:
    """Returns the medians since counting began, from the histograms that the store keeps."""
    names = {f"{OPEN}_ms_commit": OPEN, f"{MARKER}_ms_commit": MARKER, f"{MARKER}_ms_abort": MARKER}
    rows = connection.execute(
        select(_C.name, _C.label, _C.value).where(_C.cluster_id == cluster_id, _C.name.in_(names), _C.label != SUM)
    )
    buckets: dict[str, dict[int, int]] = {OPEN: {}, MARKER: {}}
    for name, label, value in rows:
        of_kind = buckets[names[name]]
        of_kind[int(label)] = of_kind.get(int(label), 0) + value
    return Medians(_median(OPEN, buckets[OPEN]), _median(MARKER, buckets[MARKER]))


def resolved_since(connection: Connection, cluster_id: int, since_ms: int) -> int:
    """Returns how many findings have ended since `since_ms`; candidates that were never confirmed do not count."""
    return connection.execute(
        select(func.count())
        .select_from(findings)
        .where(_F.cluster_id == cluster_id, _F.resolved_at_ms >= since_ms, _F.confirmed_at_ms.is_not(None))
    ).scalar_one()


def last_resolved(connection: Connection, cluster_id: int) -> Finding | None:
    """Returns the confirmed finding that ended last, None if none has."""
    row = connection.execute(
        select(findings)
        .where(
            _F.cluster_id == cluster_id,
            _F.resolved_at_ms.is_not(None),
            _F.confirmed_at_ms.is_not(None),
            _F.status == Status.RESOLVED,
        )
        .order_by(_F.resolved_at_ms.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else finding_of(row)


def _median(kind: str, buckets: Mapping[int, int]) -> int | None:
    half, seen = sum(buckets.values()) / 2, 0
    for index, bound_ms in enumerate(BOUNDS_MS[kind]):
        seen += buckets.get(index, 0)
        if seen and seen >= half:
            return bound_ms
    return None
