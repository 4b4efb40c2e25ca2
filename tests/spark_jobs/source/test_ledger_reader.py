"""Tests of the ledger's reader on executors: ranges of several topics are read to their ends, whatever bytes they
contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from service.domain.partitions.ledger import LedgerBatch, TopicRange
from service.domain.reasons.unread import NoBatch
from service.domain.transaction_log.facts import RangeRead
from service.kafka import errors
from service.kafka.errors import KafkaRefused
from service.kafka.fetch import Fetched, PartitionFetch
from spark_jobs.fold.ledger import batches_from_rows
from spark_jobs.source import ledger_reader, reader
from tests.helpers.builders.batches import COMMIT, TRANSACTIONAL, Rec, batch, control_batch
from tests.spark_jobs.source.test_reader import SETTINGS, answering

NOW_MS = 1_700_000_000_000


def records(base: int, count: int = 1, size: int = 5) -> bytes:
    made = [Rec(b"k", b"v" * size, n) for n in range(count)]
    return batch(made, base, timestamp_ms=NOW_MS, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0)


def marker(base: int) -> bytes:
    return control_batch(COMMIT, base, producer_id=7, timestamp_ms=NOW_MS)


def read(
    monkeypatch: pytest.MonkeyPatch, logs: Mapping[str, Sequence[tuple[int, bytes]]], *ranges: TopicRange
) -> LedgerBatch:
    """Reads the ranges. `logs` maps each topic to its batches, each as (offset after the batch, batch). A fetch returns
    at most as many bytes as were requested. A fetch of the topic `secret` is refused."""

    def answer(topic: str, wanted: PartitionFetch) -> Fetched:
        if topic == "secret":
            return Fetched(topic, wanted.partition, errors.TOPIC_AUTHORIZATION_FAILED, -1, -1, -1, b"")
        data = b"".join(d for behind, d in logs[topic] if behind > wanted.offset)
        return Fetched(topic, wanted.partition, 0, 99, -1, 0, data[: wanted.max_bytes])

    answering(monkeypatch, answer)
    rows = list(ledger_reader.read_tails(SETTINGS, ranges, lambda: NOW_MS))
    (found,) = batches_from_rows(pa.Table.from_batches(rows))
    return found


def a_range(topic: str, partition: int, lo: int, hi: int) -> TopicRange:
    return TopicRange(topic, RangeRead(partition, "T", 2, lo, hi, 1, 0, 0, hi, NOW_MS, 0, 0, None))


def test_every_range_of_every_topic_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pay = [(3, records(0, 3)), (4, marker(3)), (6, records(4, 2))]
    logs = {"pay": pay, "orders": [(1, records(0))]}
    asked = [a_range("pay", 0, 0, 4), a_range("orders", 0, 0, 1), a_range("pay", 1, 3, 6), a_range("pay", 2, 6, 6)]
    found = read(monkeypatch, logs, *asked)
    assert found.trouble is None
    assert {(volume.topic, volume.partition): (volume.records, volume.commits) for volume in found.volumes} == {
        ("pay", 0): (3, 1),
        ("pay", 1): (2, 1),
        ("orders", 0): (1, 0),
    }
    assert [(marker.topic, marker.partition, marker.generation, marker.offset) for marker in found.markers] == [
        ("pay", 0, 2, 3),
        ("pay", 1, 2, 3),
    ]
    done = {(topic, r.partition): (r.lo, r.hi, r.records) for topic, r in found.ranges}
    assert done == {("pay", 0): (0, 4, 3), ("pay", 1): (3, 6, 2), ("pay", 2): (6, 6, 0), ("orders", 0): (0, 1, 1)}


def test_a_batch_larger_than_a_fetch_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PARTITION_BYTES", 100)
    found = read(monkeypatch, {"pay": [(1, records(0, size=5_000)), (2, records(1))]}, a_range("pay", 0, 0, 2))
    assert (sum(volume.records for volume in found.volumes), found.trouble) == (2, None)


def test_bytes_that_are_no_batch_are_skipped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    log = [(1, records(0)), (2, bytes(80)), (3, records(2))]
    found = read(monkeypatch, {"pay": log}, a_range("pay", 0, 0, 3))
    assert sum(volume.records for volume in found.volumes) == 2
    assert found.trouble == NoBatch("pay", 0, 1)


def test_a_topic_that_may_not_be_read_any_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaRefused, match="no permission on topic secret: grant READ on it"):
        read(monkeypatch, {}, a_range("secret", 0, 0, 1))
