"""Consumer groups on stalled partitions, and the relation of each to the LSO."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as QueryParameter

from service.api.http.answers import answer
from service.api.http.fields import text_of_time
from service.api.http.paging import LIMIT, Cursor, Limit, cut
from service.api.http.parameters import Truth, only_known
from service.api.http.problems import describe
from service.api.http.store import store_of
from service.api.routes.clusters import known_cluster
from service.api.schemas.groups import Groups
from service.domain.partitions.blocked_groups import AffectedGroup
from service.store.queries.partitions import looked_at_ms, read_affected_groups

router = APIRouter(tags=["groups"], dependencies=[Depends(only_known)])


@router.get(
    "/clusters/{cluster}/groups",
    operation_id="listGroups",
    response_model=Groups,
    responses=describe(400, 404, 422, 503),
)
def list_groups(
    request: Request,
    cluster: str,
    blocked: Annotated[
        Truth | None,
        QueryParameter(description="true: stopped, will_stop and unstable_offsets only; false: the others only."),
    ] = None,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists, by group, topic and partition, all groups that committed offsets on partitions whose LSO has been below
    the high watermark for a second, whether the transactions that are open there are legal or not. Also lists groups
    whose own offsets are part of an open transaction, first offsets included; these are read from the batches on
    `__consumer_offsets`. An LSO that is at the high watermark blocks no group.
    """
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
        as_of_ms = looked_at_ms(connection, found.id)
        victims = read_affected_groups(connection, found.id)
    chosen = (one for one in victims if blocked is None or one.is_blocked == blocked)
    page, next_cursor = cut(chosen, lambda one: one.key, limit, cursor, cluster, "groups", blocked)
    body = {
        "items": [_describe(one) for one in page],
        "next_cursor": next_cursor,
        "as_of": text_of_time(as_of_ms),
    }
    return answer(request, body, as_of_ms)


def _describe(one: AffectedGroup) -> dict[str, Any]:
    committed = None if one.offset.committed_offset < 0 else one.offset.committed_offset
    last_stable_offset = None if one.ends is None else one.ends.last_stable_offset
    high_watermark = None if one.ends is None else one.ends.high_watermark
    group, topic, partition = one.key
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "committed_offset": committed,
        "last_stable_offset": last_stable_offset,
        "high_watermark": high_watermark,
        "lag_to_lso": _lag(committed, last_stable_offset),
        "lag_to_hw": _lag(committed, high_watermark),
        "members": one.offset.members,
        "relation": one.relation,
        "offsets_partition": one.offsets_partition,
        "producer_id": one.waits_for_producer_id,
        "observed_at": text_of_time(one.offset.observed_at_ms),
    }


def _lag(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else end - committed
