"""Lists markers, and volume by minute, of tailed partitions. A partition is tailed if every batch of it is read
(`--partitions all`)."""

from __future__ import annotations

from typing import Final

from fastapi import Response
from pydantic import TypeAdapter
from sqlalchemy import Connection

from service.api.http.answers import KeptRouter, answer_page
from service.api.http.paging import LIMIT, Cursor, Int64, Limit, cut, read_place, write_place
from service.api.http.parameters import PartitionNumber, Window, window_ms
from service.api.http.problems import NOT_TAILED, ProblemError
from service.api.http.state import App
from service.api.schemas.partitions import Marker, Markers, Volume, VolumeMinute
from service.domain.partitions import ledger
from service.domain.transaction_log.id_delta import MINUTE_MS, minute_of
from service.store.escaped_text import printable
from service.store.queries import partitions as read_ledger
from service.store.queries.clusters import ClusterRow
from service.store.queries.history import owner_at, read_owners

_PLACE: Final = TypeAdapter(tuple[Int64, Int64])
"""The content of a cursor: generation and offset of the page's last marker."""

router = KeptRouter("partitions")


@router.read("/clusters/{cluster}/partitions/{topic}/{partition}/markers", "listMarkers", Markers)
def list_markers(
    app: App,
    cluster: str,
    topic: str,
    partition: PartitionNumber,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists the markers that ended transactions on the partition, newest first. Only markers in the tailed part of its
    log are known. Markers are kept for 7 days by default (`[keep] history`). Available only if txnscope runs with
    `--partitions all`.
    """
    filters = (cluster, "markers", topic, partition)
    before = read_place(_PLACE, cursor, *filters)
    with app.reading(cluster) as (connection, found):
        as_of_ms = _tailed_as_of_ms(connection, found, topic, partition)
        rows, after = read_ledger.read_markers(connection, found.id, topic, partition, before, limit)
        owners = {pid: read_owners(connection, found.id, pid) for pid in {row.producer_id for row in rows}}

    def owner_of(row: ledger.Marker) -> bytes | None:
        owner = owner_at(owners[row.producer_id], row.at_ms)
        return None if owner is None else owner.transactional_id

    items = [Marker.of(row, owner_of(row), found.name) for row in rows]
    next_cursor = None if after is None else write_place(after, *filters)
    return answer_page(Markers, items, next_cursor, as_of_ms)


@router.read("/clusters/{cluster}/partitions/{topic}/{partition}/volume", "getVolume", Volume)
def get_volume(
    app: App,
    cluster: str,
    topic: str,
    partition: PartitionNumber,
    window: Window = "1h",
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists the volume written to the partition, by the minute of its batches' timestamps, oldest first. Minutes
    without writes are listed; minutes before txnscope began to tail the partition are not. Available only if txnscope
    runs with `--partitions all`."""
    length_ms = window_ms(window)
    with app.reading(cluster) as (connection, found):
        as_of_ms = _tailed_as_of_ms(connection, found, topic, partition)
        from_ms = minute_of(as_of_ms - length_ms)
        since_ms = read_ledger.counted_since_ms(connection, found.id, topic, partition)
        counted = {
            volume.minute_ms: volume
            for volume in read_ledger.read_volume(connection, found.id, topic, partition, from_ms)
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
            f"partition '{name}-{partition}' of cluster {cluster.name!r} is not tailed; to tail it, run txnscope with"
            f" --partitions all --topics {name}",
        )
    return as_of_ms
