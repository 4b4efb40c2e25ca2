"""Reads a bounded part of the transaction log: shows whether the log may be read, its ids and topics, and the brokers'
clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from service.domain.doctor.cluster_report import ClockReport
from service.domain.error_codes import error_text
from service.domain.transaction_log.states import TOPIC, is_time
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, TopicLayout
from service.kafka.errors import KafkaFailure
from service.kafka.fetch import Fetched, PartitionFetch, fetch_many
from service.kafka.offsets import EARLIEST, LATEST, list_offsets
from service.wire.batches import Batch, read_batches
from service.wire.errors import DecodeError
from service.wire.records import read_records
from service.wire.transaction_log import decode_key, decode_value

READ_MS: Final = 10_000
READ_BYTES: Final = 16 << 20
"""Number of bytes after which reading stops. Even if the log is larger, the part that was read shows whether ids
are hidden."""
LISTEN_MS: Final = 3_000
"""Time (ms) for which to wait for records that are being written, divided among the leaders."""
_FETCH_BYTES: Final = 1 << 20
_TIMEOUT_MS: Final = 5_000

Clock = Callable[[], int]


class LogRead(NamedTuple):
    """The result of a read. `may_read`: whether the principal may read the log; None if this is not known. `why`: the
    reason why it is not known; None if there is no log. `ids`: ids in the part that was read, without ids whose last
    record there is a tombstone."""

    may_read: bool | None = None
    why: str | None = None
    ids: frozenset[bytes] = frozenset()
    topics: frozenset[str] = frozenset()
    is_whole: bool = False
    newest_record_ms: int | None = None
    clocks: tuple[ClockReport, ...] = ()


class _Found:
    def __init__(self) -> None:
        self.ids: set[bytes] = set()
        self.topics: set[str] = set()
        self.newest_ms: int | None = None
        self.size = 0

    def take(self, data: bytes) -> int | None:
        """Adds the ids, topics and times of the records in `data` that can be decoded. Returns the offset after the
        last batch; None if `data` has no batch."""
        self.size += len(data)
        behind = None
        for batch in read_batches(data):
            if not isinstance(batch, Batch):
                behind = batch.next_offset
                continue
            behind = batch.header.base_offset + batch.header.last_offset_delta + 1
            if not batch.header.is_control:
                self._records(batch)
        return behind

    def _records(self, batch: Batch) -> None:
        if is_time(batch.header.max_timestamp_ms):
            self.newest_ms = max(self.newest_ms or 0, batch.header.max_timestamp_ms)
        try:
            for record in read_records(batch):
                transactional_id = decode_key(record.key)
                if record.value is None:
                    self.ids.discard(transactional_id)
                    continue
                self.ids.add(transactional_id)
                self.topics.update(topic for topic, _ in decode_value(record.value).partitions or ())
        except DecodeError:
            return  # the application reports it; here some ids are missing


def read_log(client: KafkaClient, layout: TopicLayout, clock_ms: Clock) -> LogRead:
    """Reads every partition that has a leader, from its log start on, until READ_MS have passed or READ_BYTES are read.
    Then measures the brokers' clocks, for about LISTEN_MS. A refusal or failure of Kafka is part of the result; nothing
    is raised.
    """
    led = TopicLayout(
        layout.topic, layout.topic_id, {p: leader for p, leader in layout.leaders.items() if leader.node >= 0}
    )
    found = _Found()
    try:
        starts, ends = (list_offsets(client, led, which).found for which in (EARLIEST, LATEST))
        error, at = _read(client, led, dict(starts), ends, found)
    except KafkaFailure as e:
        return LogRead(None, str(e))
    if error == errors.TOPIC_AUTHORIZATION_FAILED:
        return LogRead(False)
    if not starts or (error and not found.size):
        return LogRead(None, error_text(error) if error else "no leader answers")
    is_whole = len(at) == len(layout.leaders) and all(at[p] >= ends.get(p, 0) for p in at)
    clocks = _listen(client, led, clock_ms)
    return LogRead(True, None, frozenset(found.ids), frozenset(found.topics), is_whole, found.newest_ms, clocks)


def _read(
    client: KafkaClient, led: TopicLayout, at: dict[int, int], ends: Mapping[int, int], found: _Found
) -> tuple[int, dict[int, int]]:
    """Returns the last error code, and a mapping from partition to the offset at which reading stopped. Partitions take
    turns, so that a little of each is read.
    """
    give_up = time.monotonic() + READ_MS / 1000
    left = sorted(at)
    error = errors.NONE
    is_first = True
    while left and found.size < READ_BYTES and time.monotonic() < give_up:
        partition = left.pop(0)
        # the first fetch is made even if the log is empty: it shows whether the log may be read
        if at[partition] >= ends.get(partition, 0) and not is_first:
            continue
        is_first = False
        answer = _fetch(client, led.leaders[partition], {partition: at[partition]}, 0)[0]
        if answer.error:
            error = answer.error
            if error == errors.TOPIC_AUTHORIZATION_FAILED:
                break
            continue
        behind = found.take(answer.records)
        if behind is not None and behind > at[partition]:
            at[partition] = behind
            left.append(partition)
    return error, at


def _fetch(client: KafkaClient, leader: Leader, positions: Mapping[int, int], wait_ms: int) -> list[Fetched]:
    wanted = [PartitionFetch(p, offset, -1, _FETCH_BYTES) for p, offset in positions.items()]
    return fetch_many(client, leader.node, {TOPIC: wanted}, _FETCH_BYTES, wait_ms, _TIMEOUT_MS + wait_ms)


def _listen(client: KafkaClient, led: TopicLayout, clock_ms: Clock) -> tuple[ClockReport, ...]:
    """Returns the coordinators' clocks, from records that arrive while this function waits: a coordinator stamps each
    record at its append. The error is at most the time that two requests take."""
    nodes = sorted({leader.node for leader in led.leaders.values()})
    clocks = []
    for node in nodes:
        own = TopicLayout(led.topic, led.topic_id, {p: n for p, n in led.leaders.items() if n.node == node})
        try:
            began_ms = clock_ms()
            ends = list_offsets(client, own, LATEST).found
            way_ms = clock_ms() - began_ms
            answers = _fetch(client, Leader(node, -1), ends, LISTEN_MS // len(nodes))
            arrived_ms = clock_ms()
        except KafkaFailure:
            continue
        stamps = [_first_timestamp(answer.records) for answer in answers if not answer.error]
        fresh = [stamp for stamp in stamps if stamp is not None]
        if fresh:
            ahead_ms, within_ms = max(fresh) - arrived_ms, 2 * way_ms + 1
            clocks.append(ClockReport(f"broker {node}", ahead_ms, within_ms, "a transaction record just written"))
    return tuple(clocks)


def _first_timestamp(data: bytes) -> int | None:
    for batch in read_batches(data):
        if isinstance(batch, Batch) and not batch.header.is_control:
            return batch.header.max_timestamp_ms if is_time(batch.header.max_timestamp_ms) else None
    return None
