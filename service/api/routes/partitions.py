"""Data partitions: their LSO, the transactions that block it, what will end these transactions, and the consumer groups
that wait.

Spans are read from the partition's log; owners and causes come from the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as PathParameter
from fastapi import Query as QueryParameter
from pydantic import TypeAdapter
from sqlalchemy import Connection

from service.api.http.answers import KeptRouter, answer, answer_page, unless_known
from service.api.http.fields import text_of_time
from service.api.http.kafka import explained
from service.api.http.paging import LIMIT, Cursor, Int64, Limit, cut, read_place, write_place
from service.api.http.parameters import OfApplication, PartitionNumber, Truth, only_known, unusable
from service.api.http.problems import NO_SUCH_PARTITION, ProblemError, describe
from service.api.http.state import App, known_cluster
from service.api.schemas.offsets import Explanation
from service.api.schemas.partitions import Group, Groups, OnePartition, Partition, Partitions
from service.api.schemas.shape import shaped
from service.domain.application_rules import LONGEST_NAME
from service.domain.partitions.blocked_groups import NO_GROUPS, BlockedGroupIndex
from service.domain.partitions.state import PartitionState
from service.store.escaped_text import group_name, printable
from service.store.queries import partitions, transactions
from service.store.queries.applications import applications_of
from service.store.queries.clusters import ClusterRow
from service.store.queries.partitions import observed_at_ms, read_affected_groups
from service.views.applications import holders_for
from service.views.partitions.judged import judge

_PLACE: Final = TypeAdapter(tuple[str, Int64])

router = KeptRouter("partitions")
groups = KeptRouter("groups")


@router.read("/clusters/{cluster}/partitions", "listPartitions", Partitions)
def list_partitions(
    app: App,
    cluster: str,
    lagging: Annotated[
        Truth | None,
        QueryParameter(
            description="true: only partitions whose LSO is stalled below the high watermark; false: only the other"
            " partitions."
        ),
    ] = None,
    topic: Annotated[str | None, QueryParameter(max_length=249, description="Only partitions of this topic.")] = None,
    application: Annotated[
        str | None,
        QueryParameter(
            min_length=1,
            max_length=LONGEST_NAME,
            description="Only partitions with an open transaction of this application. Open transactions are known"
            " while the LSO is stalled.",
        ),
    ] = None,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists all watched partitions, by topic and number. The `relation` of an open transaction (what will end it) is
    derived from the transaction log as read at `as_of`."""
    filters = (cluster, "partitions", lagging, topic, application)
    after = read_place(_PLACE, cursor, *filters)
    with app.reading(cluster) as (connection, found):
        as_of_ms = observed_at_ms(connection, found.id)
        rows, next_place = partitions.page(
            connection, found.id, after, limit, lagging=lagging, topic=topic, application=application
        )
        items = _described(connection, found, rows)
    next_cursor = None if next_place is None else write_place(next_place, *filters)
    return answer_page(Partitions, items, next_cursor, as_of_ms)


@router.read("/clusters/{cluster}/partitions/{topic}/{partition}", "getPartition", OnePartition)
def get_partition(app: App, cluster: str, topic: str, partition: PartitionNumber) -> Response:
    """Returns one watched partition."""
    with app.reading(cluster) as (connection, found):
        row = partitions.find(connection, found.id, topic, partition)
        if row is None:
            name = f"{printable(topic)[:249]}-{partition}"
            raise ProblemError(404, NO_SUCH_PARTITION, f"partition {name!r} of cluster {found.name!r} is not watched")
        as_of_ms = observed_at_ms(connection, found.id)
        (one,) = _described(connection, found, [row])
    return answer(shaped(OnePartition, one, as_of=text_of_time(as_of_ms)), as_of_ms)


def _described(connection: Connection, cluster: ClusterRow, rows: Sequence[PartitionState]) -> list[Partition]:
    blocked = NO_GROUPS
    if any(row.stalled_since_ms is not None for row in rows):
        blocked = BlockedGroupIndex(read_affected_groups(connection, cluster.id))
    judged = judge(connection, cluster.id, rows)
    owners = (entry.relation.owner for partition in judged for entry in partition.entries)
    keys = {owner.transactional_id for owner in owners if owner is not None}
    ids = transactions.full_ids(connection, cluster.id, keys)
    named = applications_of(connection, cluster.id, keys)
    return [
        Partition.of(partition, blocked.behind(partition.row.topic_partition), cluster.name, ids, named)
        for partition in judged
    ]


@groups.read("/clusters/{cluster}/groups", "listGroups", Groups)
def list_groups(
    app: App,
    cluster: str,
    blocked: Annotated[
        Truth | None,
        QueryParameter(
            description="true: only the relations stopped, will_stop and unstable_offsets; false: only the other"
            " relations."
        ),
    ] = None,
    group: Annotated[str | None, QueryParameter(description="Only this group.")] = None,
    application: OfApplication = None,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists the groups that open transactions may affect, by group, topic and partition. A group is listed if it has
    committed offsets or members on a partition whose LSO has been stalled for a second, even if all open transactions
    there are within their timeouts. A group is also listed if it commits offsets in a transaction that is still open,
    even if these are the group's first offsets. Such commits are read from the batches on `__consumer_offsets`."""
    with app.reading(cluster) as (connection, found):
        as_of_ms = observed_at_ms(connection, found.id)
        affected = read_affected_groups(connection, found.id)
        holders = holders_for(connection, found.id, affected)
    name = None if group is None else group_name(group)
    chosen = (
        group
        for group in affected
        if blocked in (None, group.is_blocked)
        and name in (None, group.offset.group)
        and application in (None, holders.of_group(group))
    )
    page, next_cursor = cut(
        chosen, lambda group: group.key, limit, cursor, cluster, "groups", blocked, group, application
    )
    return answer_page(Groups, [Group.of(group, holders.of_group(group)) for group in page], next_cursor, as_of_ms)


_LAST = 2**63 - 1

offsets = APIRouter(tags=["partitions"], dependencies=[Depends(only_known)])


@offsets.get(
    "/clusters/{cluster}/partitions/{topic}/{partition}/offsets/{offset}",
    operation_id="explainOffsets",
    response_model=Explanation,
    responses=describe(404, 422, 429, 502, 503),
)
def explain_offsets(
    request: Request,
    app: App,
    cluster: str,
    topic: Annotated[str, PathParameter(max_length=249)],
    partition: PartitionNumber,
    offset: Annotated[int, PathParameter(ge=0, lt=_LAST)],
    to: Annotated[
        int | None, QueryParameter(le=_LAST, description="The end offset, exclusive (default: `offset` + 1).")
    ] = None,
) -> Response:
    """Explains the offsets from `offset` to `to` as a list of spans, which ends earlier if the log does. A span shows
    who wrote its records, and whether their transaction is open, was committed, or was aborted, with cause and time.
    The log is read from Kafka. If a bound of bytes or time is reached, the spans end at `truncated_at`. `only_aborted`
    sums up the aborted records before the first record that read_committed consumers get, and has bounds of its own."""
    end = offset + 1 if to is None else to
    if end <= offset:
        raise unusable("to", f"has to be above the offset {offset}")
    with app.store.read() as connection:
        found = known_cluster(connection, cluster)
    seen = explained(app, found, topic, partition, offset, end)
    return unless_known(request, answer(Explanation.of(seen, cluster), seen.as_of_ms))
