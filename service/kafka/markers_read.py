"""Reads a piece of a partition for the markers of one producer id: what ended there, and when."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from service.domain.look_back import Marker
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaUnavailable
from service.kafka.fetch import Wanted, fetch
from service.kafka.metadata import Leader
from service.wire import control
from service.wire.batches import BadBatch, Batch, read_batches
from service.wire.errors import DecodeError

FETCH_BYTES: Final = 4 << 20
MAX_BYTES: Final = 64 << 20
MAX_S: Final = 5.0
_TIMEOUT_MS: Final = 3_000
_OUTCOMES: Final = {control.ABORT: False, control.COMMIT: True}


class MarkersRead(NamedTuple):
    """Markers in [from, reached), oldest first. `is_whole`: all that was asked for was read, and nothing was damaged.

    `leader_epochs`: under which the markers were written.
    """

    markers: tuple[Marker, ...]
    leader_epochs: tuple[int, ...]
    reached: int
    is_whole: bool


def markers_between(
    client: KafkaClient, topic: str, partition: int, leader: Leader, producer_id: int, lo: int, hi: int
) -> MarkersRead:
    """Those of `producer_id` in [lo, hi), within MAX_BYTES and MAX_S. Offsets below the log start are not whole.

    Raises KafkaUnavailable, or KafkaRefused (READ on the topic).
    """
    found: list[Marker] = []
    epochs: list[int] = []
    at, read, is_whole = lo, 0, True
    size = FETCH_BYTES
    give_up = time.monotonic() + MAX_S
    while at < hi:
        if read >= MAX_BYTES or time.monotonic() > give_up:
            return MarkersRead(tuple(found), tuple(epochs), at, False)
        data = _fetch(client, topic, leader, Wanted(partition, at, leader.epoch, size))
        if data is None:
            return MarkersRead(tuple(found), tuple(epochs), at, False)
        read += len(data)
        before = at
        for one in read_batches(data, at):
            if isinstance(one, BadBatch):
                is_whole = False
                continue
            header = one.header
            if before <= header.base_offset < hi and header.is_control and header.producer_id == producer_id:
                found.append(_marker(one))
                epochs.append(header.leader_epoch)
            at = max(at, header.next_offset)
        if at == before:
            if len(data) < size:  # nothing whole came, and it was not for want of room
                return MarkersRead(tuple(found), tuple(epochs), at, False)
            size *= 2
    return MarkersRead(tuple(found), tuple(epochs), min(at, hi), is_whole)


def _fetch(client: KafkaClient, topic: str, leader: Leader, wanted: Wanted) -> bytes | None:
    """None: what was wanted is no longer there."""
    (answer,) = fetch(client, leader.node, topic, [wanted], wanted.max_bytes, max_wait_ms=0, timeout_ms=_TIMEOUT_MS)
    if answer.error == errors.OFFSET_OUT_OF_RANGE:
        return None
    if answer.error == errors.TOPIC_AUTHORIZATION_FAILED:
        raise errors.KafkaRefused(errors.no_permission(topic, "READ"))
    if answer.error:
        raise KafkaUnavailable(f"{topic}-{wanted.partition}: fetch error {answer.error}")
    return answer.records


def _marker(batch: Batch) -> Marker:
    header = batch.header
    try:
        record = control.read_control(batch)
    except DecodeError:
        record = None
    if record is None or record.type not in _OUTCOMES:
        return Marker(header.base_offset, header.producer_epoch, header.max_timestamp_ms, None)
    return Marker(header.base_offset, header.producer_epoch, record.timestamp_ms, _OUTCOMES[record.type])
