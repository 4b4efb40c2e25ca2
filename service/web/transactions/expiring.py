"""The page of idle ids that their coordinators will remove, and of those that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from service.api.http.answers import KeptRoute
from service.api.http.parameters import Duration
from service.domain.duration_text import span_ms
from service.domain.findings.events import SINGLE_IDS, prefix_of
from service.domain.findings.ids_running_out import soon_ms
from service.domain.transaction_log import states
from service.domain.transaction_log.known_log import Limits
from service.domain.transaction_log.states import EXPIRATION_CONFIG, LAST_TIME_MS
from service.store.escaped_text import full_id
from service.store.queries import clusters
from service.store.queries.expiring import (
    EXPIRED_READ,
    ExpiredRow,
    count_expired,
    count_expiring,
    read_expired,
    read_expiring,
)
from service.store.rows.ids import IdRow
from service.views.cluster.frame import Frame
from service.web.charts import expiry
from service.web.shared.frame import framed
from service.web.shared.render import render

ROWS_SHOWN: Final = 200
GONE_SHOWN: Final = 50

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_WITHIN: Final = (("1h", "1 hour"), ("24h", "24 hours"), ("72h", "72 hours"), ("7d", "7 days"))

router = APIRouter(route_class=KeptRoute, include_in_schema=False)


class ExpiringRow(NamedTuple):
    """An id that can expire. `swept_ms`: latest time of its removal. `used`: the part of its time that is over, in
    percent."""

    row: IdRow
    transactional_id: bytes
    expires_ms: int
    swept_ms: int
    used: int
    is_soon: bool


class Gone(NamedTuple):
    """One expired id, or several with one `prefix`. `last`: the newest of them."""

    last: ExpiredRow
    transactional_id: bytes
    prefix: str | None
    ids: int


class Counted(NamedTuple):
    """Numbers of ids that expire within an hour, a day, three days, ever; and by sevenths of the time they are kept."""

    hour: int
    day: int
    three_days: int
    all: int
    sevenths: tuple[int, ...]


@router.get("/clusters/{cluster}/expiring")
def get_expiring(request: Request, cluster: str, within: Annotated[Duration, Query()] = "72h") -> Response:
    """Returns the page; 404 if the store does not know the cluster, 422 if `within` is no duration."""
    with framed(request, cluster) as (connection, frame):
        return _expiring(connection, frame, within)


def _expiring(connection: Connection, frame: Frame, within: str) -> Response:
    limits = frame.limits
    as_of_ms = clusters.log_as_of_ms(connection, frame.cluster.id)
    until_ms = min((as_of_ms or 0) + span_ms(within), LAST_TIME_MS - limits.sweep_ms) - limits.expiration_ms
    page = read_expiring(connection, frame.cluster.id, until_ms, None, ROWS_SHOWN)
    counted = _counted(connection, frame, limits, as_of_ms or 0)
    since_ms = frame.now_ms - _DAY_MS
    expired = read_expired(connection, frame.cluster.id, since_ms)
    gone = _gone(expired)
    return render(
        "expiring.html",
        frame,
        page="expiring",
        rows=[_row(row, limits, frame.now_ms) for row in page.rows],
        is_cut=page.after is not None,
        most=ROWS_SHOWN,
        within=within,
        choices=[*_WITHIN, *([] if within in dict(_WITHIN) else [(within, within)])],
        counted=counted,
        bars=expiry.bars(counted.sevenths, limits.expiration_ms),
        limits=limits,
        is_read=as_of_ms is not None,
        is_assumed=EXPIRATION_CONFIG in limits.assumed,
        state_names=states.NAMES,
        gone=gone[:GONE_SHOWN],
        more_gone=max(len(gone) - GONE_SHOWN, 0),
        expired=count_expired(connection, frame.cluster.id, since_ms) if len(expired) >= EXPIRED_READ else len(expired),
        outcomes={states.COMPLETE_COMMIT: "commit", states.PREPARE_COMMIT: "commit"},
    )


def _counted(connection: Connection, frame: Frame, limits: Limits, as_of_ms: int) -> Counted:
    """Counts the ids in one read of the index. Ids that are past their time count among the soonest."""
    sevenths = expiry.bounds_ms(limits.expiration_ms)
    left_ms = sorted({_HOUR_MS, _DAY_MS, 3 * _DAY_MS, *sevenths, LAST_TIME_MS})
    until_ms = [min(as_of_ms + left, LAST_TIME_MS) - limits.expiration_ms for left in left_ms]
    found = dict(zip(left_ms, count_expiring(connection, frame.cluster.id, until_ms), strict=True))
    ends = [found[bound] for bound in sevenths[:-1]] + [found[LAST_TIME_MS]]
    steps = tuple(end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True))
    return Counted(found[_HOUR_MS], found[_DAY_MS], found[3 * _DAY_MS], found[LAST_TIME_MS], steps)


def _row(row: IdRow, limits: Limits, now_ms: int) -> ExpiringRow:
    expires_ms = row.record.last_update_ms + limits.expiration_ms
    used = 100 * (now_ms - row.record.last_update_ms) // max(limits.expiration_ms, 1)
    return ExpiringRow(
        row=row,
        transactional_id=full_id(row.transactional_id, row.display),
        expires_ms=expires_ms,
        swept_ms=expires_ms + limits.sweep_ms,
        used=min(max(used, 0), 100),
        is_soon=expires_ms - now_ms <= soon_ms(limits.expiration_ms),
    )


def _gone(expired: Iterable[ExpiredRow]) -> list[Gone]:
    """Returns the expired ids, newest first; many ids with one prefix become one row."""
    by_prefix: dict[str, list[ExpiredRow]] = {}
    for one in expired:
        by_prefix.setdefault(prefix_of(one.display), []).append(one)
    found: list[Gone] = []
    for prefix, some in by_prefix.items():
        found += [_one_gone(some, prefix)] if len(some) > SINGLE_IDS else [_one_gone([one], None) for one in some]
    return sorted(found, key=lambda gone: -gone.last.expired_at_ms)


def _one_gone(some: Sequence[ExpiredRow], prefix: str | None) -> Gone:
    last = some[0]
    return Gone(last, full_id(last.transactional_id, last.display), prefix, len(some))
