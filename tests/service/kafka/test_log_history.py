"""Tests of reading the records of an id, the batches of a producer id, and the gaps of a log. The log is in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from service.domain.transaction_log.states import COMPLETE_COMMIT, EXPIRED, ONGOING, PREPARE_COMMIT
from service.domain.worlds.transactions import LogHistory, Range
from service.kafka import errors, fetch, log_history
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader
from service.kafka.fetch import Fetched, PartitionFetch
from service.kafka.log_history import id_history
from service.kafka.log_range import BatchesRead, batches_between
from service.kafka.offsets import Offsets
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import COMMIT, TRANSACTIONAL, Rec, batch, control_batch

LEADER = Leader(1, 5)
TOPICS = (("orders", (0, 3)), ("pay", (1,)))


def record(offset: int, status: int, transactional_id: bytes = b"pay", epoch: int = 7) -> bytes:
    topics = TOPICS if status in (ONGOING, PREPARE_COMMIT) else ()
    data = build.value(status=status, topics=topics, producer_epoch=epoch, tagged=build.tags(4001, None, 2))
    return build.transition(transactional_id, offset, timestamp_ms=1_000 + offset, leader_epoch=5, data=data)


class Log:
    """A log in memory. Each batch has one offset. An empty batch stands for one that the cleaner removed. Offsets below
    `start` are out of range."""

    def __init__(self, patch: pytest.MonkeyPatch, *batches: bytes, start: int = 0) -> None:
        self.batches, self.start = batches, start
        patch.setattr(fetch, "fetch_many", self.fetch)
        patch.setattr(log_history, "list_offsets", lambda *_: Offsets({3: start}, {}))

    def fetch(
        self, _client: object, node: int, wanted: Mapping[str, Sequence[PartitionFetch]], *_: int, **__: int
    ) -> list[Fetched]:
        ((topic, (partition_fetch,)),) = wanted.items()
        assert (node, partition_fetch.partition, partition_fetch.leader_epoch) == (1, 3, 5)
        if partition_fetch.offset < self.start:
            return [Fetched(topic, 3, errors.OFFSET_OUT_OF_RANGE, -1, -1, -1, b"")]
        return [
            Fetched(topic, 3, 0, len(self.batches), -1, self.start, b"".join(self.batches[partition_fetch.offset :]))
        ]

    def read(self, lo: int = 0, hi: int | None = None) -> LogHistory:
        client: KafkaClient = object()  # type: ignore[assignment]
        return id_history(client, LEADER, 3, b"pay", ("orders", 3), lo, len(self.batches) if hi is None else hi)


def test_records_of_the_id_are_read_with_their_listed_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    tombstone = build.transition(b"pay", 4, timestamp_ms=1_004, data=None)
    others = record(1, ONGOING, b"other")
    log = Log(monkeypatch, record(0, ONGOING), others, record(2, PREPARE_COMMIT), record(3, COMPLETE_COMMIT), tombstone)
    found = log.read()
    assert [(record.offset, record.state, record.offset in found.listing) for record in found.records] == [
        (0, ONGOING, True),
        (2, PREPARE_COMMIT, True),
        (3, COMPLETE_COMMIT, False),
        (4, EXPIRED, False),
    ]
    first = found.records[0]
    assert (first.producer_id, first.producer_epoch, first.client_transaction_version) == (4001, 7, 2)
    assert (first.timestamp_ms, first.leader_epoch) == (1_000, 5)
    assert (found.to_offset, found.holes, found.unread) == (5, (), ())


def test_records_removed_by_compaction_and_retention_are_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, b"", b"", record(2, ONGOING), b"", record(4, PREPARE_COMMIT), b"", start=2)
    found = log.read()
    assert (found.holes, found.unread) == ((Range(0, 2), Range(3, 4)), (Range(5, 6),))
    assert [record.offset for record in found.records] == [2, 4]


def test_offsets_before_the_first_read_offset_are_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, record(0, ONGOING), record(1, PREPARE_COMMIT), record(2, COMPLETE_COMMIT))
    found = log.read(lo=1)
    assert (found.holes, [record.offset for record in found.records]) == ((Range(0, 1),), [1, 2])


def test_undecodable_and_future_records_count_as_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = build.transition(b"pay", 1, timestamp_ms=1_001, data=b"\x00\x63")
    found = Log(monkeypatch, record(0, ONGOING), odd).read(hi=4)
    assert found.unread == (Range(1, 2), Range(2, 4))


def test_records_too_far_from_the_end_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_history, "MAX_RECORDS", 2)
    found = Log(monkeypatch, *(record(n, ONGOING) for n in range(5))).read()
    assert (found.holes, [record.offset for record in found.records]) == ((Range(0, 3),), [3, 4])


PID = 7


def data(offset: int, last: int | None = None, epoch: int = 0, producer_id: int = PID) -> bytes:
    return batch(
        [Rec(b"key", b"value", 0)],
        offset,
        last_offset_delta=(offset if last is None else last) - offset,
        leader_epoch=5,
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def marker(offset: int) -> bytes:
    return control_batch(COMMIT, offset, producer_id=PID, producer_epoch=0)


def read(patch: pytest.MonkeyPatch, batches: dict[int, bytes], lo: int, hi: int) -> BatchesRead:
    """Reads the offsets [lo, hi) of a log that contains `batches`, keyed by their last offsets. The cleaner removed all
    other batches."""

    def fetched(
        _client: object, _node: int, wanted: Mapping[str, Sequence[PartitionFetch]], *_: int, **__: int
    ) -> list[Fetched]:
        ((topic, (partition_fetch,)),) = wanted.items()
        some = b"".join(held for last, held in sorted(batches.items()) if last >= partition_fetch.offset)
        return [Fetched(topic, partition_fetch.partition, 0, 100, -1, 0, some)]

    patch.setattr(fetch, "fetch_many", fetched)
    client: KafkaClient = object()  # type: ignore[assignment]
    return batches_between(client, "orders", 0, Leader(1, 5), PID, lo, hi)


def test_markers_and_data_of_the_producer_id_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = {2: data(0, 2), 3: data(3, producer_id=8), 4: marker(4), 9: data(5, 9, epoch=1)}
    found = read(monkeypatch, log, 0, 10)
    assert [(marker.offset, marker.is_commit) for marker in found.markers] == [(4, True)]
    assert [(batch.first, batch.last, batch.producer_epoch) for batch in found.data] == [(0, 2, 0), (5, 9, 1)]
    assert (found.reached, found.is_whole, found.unbroken_from) == (10, True, 0)


@pytest.mark.parametrize(
    ("log", "unbroken_from"),
    [
        ({5: data(5)}, 5),
        ({2: data(0, 2), 5: data(4, 5)}, 4),
        ({5: data(0, 5)}, 1),
        ({1: data(0, 1)}, 9),
    ],
    ids=["nothing before", "a gap", "one that begins before", "nothing but what follows"],
)
def test_a_compacted_offset_may_have_been_a_marker(
    monkeypatch: pytest.MonkeyPatch, log: dict[int, bytes], unbroken_from: int
) -> None:
    found = read(monkeypatch, {**log, 9: data(9)}, 1, 6)
    assert (found.reached, found.is_whole) == (6, True)
    assert found.unbroken_from == unbroken_from


def test_a_damaged_batch_may_have_been_a_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = bytearray(marker(1))
    broken[-1] ^= 1
    found = read(monkeypatch, {0: data(0), 1: bytes(broken), 5: data(2, 5)}, 0, 6)
    assert (found.markers, found.is_whole, found.unbroken_from) == ((), False, 2)
