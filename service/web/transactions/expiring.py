"""The page of idle ids that their coordinators will remove, and of ids removed in the last 24 hours."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from service.api.http.answers import KeptRoute
from service.api.http.parameters import Duration
from service.domain.application_rules import LONGEST_NAME
from service.domain.duration_text import span_ms
from service.domain.transaction_log import states
from service.domain.transaction_log.states import EXPIRATION_CONFIG, LAST_TIME_MS
from service.store.queries import clusters
from service.store.queries.expiring import EXPIRED_READ, count_expired, read_expired, read_expiring
from service.views.transactions.expiring import ExpiringId, count_ids, gone_ids
from service.web.charts import expiry
from service.web.shared.frame import framed
from service.web.shared.render import render

ROWS_SHOWN: Final = 200
GONE_SHOWN: Final = 50

_DAY_MS: Final = 86_400_000
_WITHIN: Final = (("1h", "1 hour"), ("24h", "24 hours"), ("72h", "72 hours"), ("7d", "7 days"))

router = APIRouter(route_class=KeptRoute, include_in_schema=False)


@router.get("/clusters/{cluster}/expiring")
def get_expiring(
    request: Request,
    cluster: str,
    within: Annotated[Duration, Query()] = "72h",
    application: Annotated[str, Query(max_length=LONGEST_NAME)] = "",
) -> Response:
    """Returns the page; 404 if the store does not know the cluster, 422 if `within` is no duration."""
    with framed(request, cluster) as (connection, frame):
        limits = frame.limits
        as_of_ms = clusters.log_as_of_ms(connection, frame.cluster.id)
        until_ms = min((as_of_ms or 0) + span_ms(within), LAST_TIME_MS - limits.sweep_ms) - limits.expiration_ms
        page = read_expiring(connection, frame.cluster.id, until_ms, None, ROWS_SHOWN, application or None)
        counted = count_ids(connection, frame.cluster.id, limits, as_of_ms or 0, expiry.bounds_ms(limits.expiration_ms))
        since_ms = frame.now_ms - _DAY_MS
        expired = read_expired(connection, frame.cluster.id, since_ms)
        gone = gone_ids(expired)
        return render(
            "expiring.html",
            frame,
            page="expiring",
            rows=[ExpiringId.of(row, limits, frame.now_ms) for row in page.rows],
            is_cut=page.after is not None,
            most=ROWS_SHOWN,
            within=within,
            application=application,
            choices=[*_WITHIN, *([] if within in dict(_WITHIN) else [(within, within)])],
            counted=counted,
            bars=expiry.bars(counted.parts, limits.expiration_ms),
            limits=limits,
            is_read=as_of_ms is not None,
            is_assumed=EXPIRATION_CONFIG in limits.assumed,
            state_names=states.NAMES,
            gone=gone[:GONE_SHOWN],
            more_gone=max(len(gone) - GONE_SHOWN, 0),
            expired=count_expired(connection, frame.cluster.id, since_ms)
            if len(expired) >= EXPIRED_READ
            else len(expired),
            outcomes={states.COMPLETE_COMMIT: "commit", states.PREPARE_COMMIT: "commit"},
        )
