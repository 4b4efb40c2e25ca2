"""The transaction coordinators: one row for each partition of `__transaction_state`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fastapi import APIRouter, Depends, Request, Response

from service.api.http.answers import answer
from service.api.http.fields import text_of_time
from service.api.http.paging import LIMIT, Cursor, Limit, cut
from service.api.http.parameters import only_known
from service.api.http.problems import describe
from service.api.http.store import store_of
from service.api.routes.clusters import known_cluster
from service.api.schemas.models import Coordinators
from service.domain.transaction_log.states import EXPIRED, OPEN, SOURCE
from service.store.queries import clusters
from service.store.queries.clusters import PartitionRow

router = APIRouter(tags=["clusters"], dependencies=[Depends(only_known)])


@router.get(
    "/clusters/{cluster}/coordinators",
    operation_id="listCoordinators",
    response_model=Coordinators,
    responses=describe(400, 404, 422, 503),
)
def list_coordinators(request: Request, cluster: str, limit: Limit = LIMIT, cursor: Cursor = None) -> Response:
    """Lists all partitions of `__transaction_state`, by number. `ids` does not count expired ids."""
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
        partitions = clusters.partitions(connection, found.id, SOURCE)
        counts = clusters.state_counts(connection, found.id)
        status = clusters.statuses(connection, found.id).get(SOURCE)
    ids: Counter[int] = Counter()
    open_: Counter[int] = Counter()
    for count in counts:
        ids[count.partition] += 0 if count.state == EXPIRED else count.ids
        open_[count.partition] += count.ids if count.state in OPEN else 0
    as_of_ms = None if status is None else status.as_of_ms
    page, next_cursor = cut(partitions, lambda row: (row.partition,), limit, cursor, cluster, "coordinators")
    items = [_row(row, ids[row.partition], open_[row.partition]) for row in page]
    return answer(request, {"items": items, "next_cursor": next_cursor, "as_of": text_of_time(as_of_ms)}, as_of_ms)


def _row(row: PartitionRow, ids: int, open_: int) -> dict[str, Any]:
    return {
        "partition": row.partition,
        "leader": row.leader,
        "leader_epoch": row.leader_epoch,
        "ids": ids,
        "open": open_,
        "transitions_per_s": round(row.transitions_per_s, 3),
        "position": row.next_offset,
        "end_offset": row.end_offset,
        "lag": max(0, row.end_offset - row.next_offset),
        "as_of": text_of_time(row.end_asked_at_ms),
    }
