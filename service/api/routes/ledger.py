"""Markers, and volume by minute, of partitions of which every batch is read (`--partitions all`)."""

from __future__ import annotations

import struct
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Response
from fastapi import Path as PathParameter
from fastapi import Query as QueryParameter
from sqlalchemy import Connection

from service.api.http.answers import KeptRoute, answer_page
from service.api.http.paging import LIMIT, Cursor, Limit, cut, foreign_cursor, seal, unseal
from service.api.http.parameters import Duration, only_known, unusable
from service.api.http.problems import NOT_TAILED, ProblemError, describe
from service.api.http.state import App, known_cluster
from service.api.schemas.partitions import Marker, Markers, Volume, VolumeMinute
from service.domain.duration_text import span_ms
from service.domain.partitions import ledger
from service.domain.transaction_log.id_delta import MINUTE_MS, minute_of
from service.store.escaped_text import printable
from service.store.queries import partitions as read_ledger
from service.store.queries.clusters import ClusterRow
from service.store.queries.history import owner_at, read_owners

LONGEST_MS: Final = 7 * 24 * 3_600_000
"""Longest `window`: volume is kept that long by default."""

# the last row's generation and offset
_PLACE = struct.Struct(">qq")

Partition = Annotated[int, PathParameter(ge=0, lt=2**31)]

router = APIRouter(route_class=KeptRoute, tags=["partitions"], dependencies=[Depends(only_known)])


@router.get(
    "/clusters/{cluster}/partitions/{topic}/{partition}/markers",
    operation_id="listMarkers",
    response_model=Markers,
    responses=describe(400, 404, 422, 503),
)
def list_markers(
    app: App,
    cluster: str,
    topic: str,
    partition: Partition,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists the markers that ended transactions on the partition since tailing of it began, newest first; they are kept
    for 7 days. Available only if txnscope runs with `--partitions all`.
    """
    filters = (cluster, "markers", topic, partition)
    before = None if cursor is None else _place(unseal(cursor, _PLACE.size, *filters))
    with app.store.read() as connection:
        found = known_cluster(connection, cluster)
        as_of_ms = _tailed_as_of_ms(connection, found, topic, partition)
        rows, after = read_ledger.read_markers(connection, found.id, topic, partition, before, limit)
        owners = {pid: read_owners(connection, found.id, pid) for pid in {row.producer_id for row in rows}}

    def owner_of(row: ledger.Marker) -> bytes | None:
        owner = owner_at(owners[row.producer_id], row.at_ms)
        return None if owner is None else owner.transactional_id

    items = [Marker.of(row, owner_of(row), found.name) for row in rows]
    next_cursor = None if after is None else seal(_PLACE.pack(*after), *filters)
    return answer_page(Markers, items, next_cursor, as_of_ms)


@router.get(
    "/clusters/{cluster}/partitions/{topic}/{partition}/volume",
    operation_id="getVolume",
    response_model=Volume,
    responses=describe(400, 404, 422, 503),
)
def get_volume(
    app: App,
    cluster: str,
    topic: str,
    partition: Partition,
    window: Annotated[
        Duration, QueryParameter(description="Only minutes that ended at most this long before `as_of`; at most 7d.")
    ] = "1h",
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists the volume written to the partition, by the minute of its batches' timestamps, oldest first. Every minute
    since tailing of it began is listed, also a minute in which nothing was written. Available only if txnscope runs
    with `--partitions all`.
    """
    window_ms = span_ms(window)
    if window_ms > LONGEST_MS:
        raise unusable("window", f"at most 7d, {window!r} is longer")
    with app.store.read() as connection:
        found = known_cluster(connection, cluster)
        as_of_ms = _tailed_as_of_ms(connection, found, topic, partition)
        from_ms = minute_of(as_of_ms - window_ms)
        since_ms = read_ledger.counted_since_ms(connection, found.id, topic, partition)
        counted = {
            one.minute_ms: one for one in read_ledger.read_volume(connection, found.id, topic, partition, from_ms)
        }
    minutes = range(max(from_ms, since_ms or from_ms), max(minute_of(as_of_ms), *counted, 0) + 1, MINUTE_MS)
    of_partition = (cluster, "volume", topic, partition, window)
    page, next_cursor = cut(minutes, lambda minute_ms: (minute_ms,), limit, cursor, *of_partition)
    nothing = ledger.Volume(topic, partition, 0, 0, 0, 0, 0, 0)
    items = [VolumeMinute.of(counted.get(minute_ms) or nothing._replace(minute_ms=minute_ms)) for minute_ms in page]
    return answer_page(Volume, items, next_cursor, as_of_ms)


def _tailed_as_of_ms(connection: Connection, cluster: ClusterRow, topic: str, partition: int) -> int:
    """Returns the time at which the partition's end offset was last requested. Raises ProblemError (404) if the
    partition is not tailed."""
    as_of_ms = read_ledger.tailed_as_of_ms(connection, cluster.id, topic, partition)
    if as_of_ms is None:
        name = printable(topic)[:249]
        raise ProblemError(
            404,
            NOT_TAILED,
            f"partition '{name}-{partition}' of cluster {cluster.name!r} is not tailed: txnscope reads every batch only"
            f" of the topics given with --partitions all --topics {name}",
        )
    return as_of_ms


def _place(data: bytes) -> tuple[int, int]:
    if len(data) != _PLACE.size:
        raise foreign_cursor()
    generation, offset = _PLACE.unpack(data)
    return generation, offset
