"""Tests of the reader: a broken batch is rejected and all others are read, missing offsets are counted, and waits for
partitions that cannot be read are bounded."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pytest

from deploy.demo.broker import Broker
from service.domain.reasons.unread import ErrorAnswer, PartitionsUnreadable
from service.domain.transaction_log.facts import LogBatch, RangeRead
from service.domain.transaction_log.states import TOPIC
from service.kafka import errors
from service.kafka.cluster import Leader, TopicLayout, topic_layout
from service.kafka.errors import KafkaUnavailable
from service.kafka.fetch import Fetched, PartitionFetch
from service.kafka.settings import ClientSettings
from spark_jobs.fold.rows import batches_from_rows
from spark_jobs.source import reader
from tests.helpers.brokers import connect
from tests.helpers.builders import transaction_log as build
from tests.helpers.waiting import LIMIT_S
from tests.integration.application import log_ends
from tests.integration.producers import open_producer

CORRUPT_MESSAGE = 2
SETTINGS = ClientSettings.load("nowhere:9092", None)


def good(offset: int) -> bytes:
    return build.transition(b"id-%d" % offset, offset, timestamp_ms=1_000, data=build.value())


def with_length(data: bytes, length: int) -> bytes:
    return data[:8] + struct.pack(">i", length) + data[12:]


def answering(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[str, PartitionFetch], Fetched], patience_s: float = 0.5
) -> list[list[int]]:
    """Makes `answer` reply to the fetch of each partition. Returns a list to which each fetch adds its partitions."""
    asked: list[list[int]] = []

    def fetch(_client: object, _node: int, wanted: Mapping[str, Sequence[PartitionFetch]], *_: int) -> list[Fetched]:
        ((topic, of_topic),) = wanted.items()
        asked.append([partition_fetch.partition for partition_fetch in of_topic])
        return [answer(topic, partition_fetch) for partition_fetch in of_topic]

    monkeypatch.setattr(reader, "fetch_many", fetch)
    monkeypatch.setattr(reader, "topic_layout", lambda *_: None)
    monkeypatch.setitem(reader.clients, SETTINGS, None)  # the client is never used
    monkeypatch.setattr(reader, "PATIENCE_S", patience_s)
    monkeypatch.setattr(reader, "PATIENCE_ERROR_S", 0.5)
    return asked


def a_range(partition: int, hi: int) -> RangeRead:
    return RangeRead(partition, "T", 0, 0, hi, 1, 0, 0, hi, 0, 0, 0, None)


def read(monkeypatch: pytest.MonkeyPatch, log: list[bytes]) -> LogBatch:
    """Reads a log. `log` has the batch at each offset, or no bytes if the offset has no batch. A fetch returns
    everything from the requested offset on."""
    answering(monkeypatch, lambda _, w: Fetched("topic", w.partition, 0, len(log), -1, 0, b"".join(log[w.offset :])))
    rows = reader.read_ranges(SETTINGS, "topic", [a_range(0, len(log))])
    (batch,) = batches_from_rows(pa.Table.from_batches(list(rows)))
    return batch


BROKEN = {
    "length past everything": (with_length(good(2), 2**31 - 13), "bad_length"),
    "length below a header's": (with_length(good(2), 5), "bad_length"),
    "length into the next batch": (with_length(good(2), len(good(2)) + 20), "bad_crc"),
    "length too small": (with_length(good(2), len(good(2)) - 40), "bad_crc"),
    "zeros": (bytes(len(good(2))), "bad_length"),
    "offset far away, length too small": (struct.pack(">qi", 2**62, 5) + good(2)[12:], "bad_length"),
    "offset far away": (struct.pack(">q", 2**62) + good(2)[8:], "bad_offset"),
    "offset a little ahead": (struct.pack(">q", 3) + good(2)[8:], "bad_offset"),
    "offset gone back": (struct.pack(">q", 1) + good(2)[8:], "bad_offset"),
}


@pytest.mark.parametrize(("broken", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_batch_is_rejected_where_it_lies_and_all_others_are_read(
    monkeypatch: pytest.MonkeyPatch, broken: bytes, reason: str
) -> None:
    batch = read(monkeypatch, [good(0), good(1), broken, good(3), good(4)])
    assert {run.transactional_id: run.last.offset for run in batch.runs} == {b"id-%d" % n: n for n in (0, 1, 3, 4)}
    assert [(reject.offset, reject.reason) for reject in batch.rejects] == [(2, reason)]
    assert batch.rejects[0].value is not None
    assert batch.rejects[0].value.startswith(broken[:12])


def test_a_range_without_one_good_record_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = read(monkeypatch, [BROKEN["length below a header's"][0], BROKEN["length below a header's"][0]])
    assert [reject.offset for reject in batch.rejects] == [0, 1]
    assert [(r.lo, r.hi) for r in batch.ranges] == [(0, 2)]


def test_offsets_emptied_by_compaction_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of [0, 8), the offsets 0, 2, 3 and 6 have a record; compaction removed the others before they were read."""
    (range_read,) = read(monkeypatch, [good(0), b"", good(2), good(3), b"", b"", good(6), b"", good(8)]).ranges
    assert (range_read.missing, range_read.hole_end) == (4, 8)
    (whole,) = read(monkeypatch, [good(0), good(1)]).ranges
    assert (whole.missing, whole.hole_end) == (0, 0)


def test_a_record_that_cannot_be_decoded_is_a_hole_and_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id and the state of a rejected record are not trusted, so its offset counts as a hole."""
    odd = build.transition(b"odd", 1, timestamp_ms=1_000, data=b"\x00\x63")
    batch = read(monkeypatch, [good(0), odd, good(2)])
    assert [(reject.offset, reject.transactional_id) for reject in batch.rejects] == [(1, b"odd")]
    assert [(range_read.missing, range_read.hole_end) for range_read in batch.ranges] == [(0, 2)]


def test_only_the_partition_with_an_error_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Fetched("topic", 0, CORRUPT_MESSAGE, 1, -1, 0, b"")
    asked = answering(
        monkeypatch, lambda _, w: Fetched("topic", w.partition, 0, 1, -1, 0, good(0)) if w.partition else broken
    )
    with pytest.raises(KafkaUnavailable) as failure:
        list(reader.read_ranges(SETTINGS, "topic", [a_range(p, 1) for p in (0, 1, 2)]))
    assert asked[0] == [0, 1, 2]
    assert {tuple(one) for one in asked[1:]} == {(0,)}, "partitions 1 and 2 are read already"
    because = ErrorAnswer(1, "a fetch of topic-0 at offset 0", CORRUPT_MESSAGE)
    assert failure.value.reason == PartitionsUnreadable("topic", (0,), (0,), because)


@pytest.mark.parametrize("topic_id", [None, "created again"])
def test_the_reader_does_not_wait_for_a_deleted_topic(monkeypatch: pytest.MonkeyPatch, topic_id: str | None) -> None:
    gone = Fetched("topic", 0, errors.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1, b"")
    answering(monkeypatch, lambda *_: gone, patience_s=LIMIT_S)
    layout = None if topic_id is None else TopicLayout("topic", topic_id, {0: Leader(1, 0)})
    monkeypatch.setattr(reader, "topic_layout", lambda *_: layout)
    with pytest.raises(KafkaUnavailable, match="with error 3"):
        list(reader.read_ranges(SETTINGS, "topic", [a_range(0, 1)]))


@pytest.mark.broker
def test_the_wait_for_a_broker_that_returns_no_records_is_bounded(
    broker_431: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The high watermark promises more records, but the broker never returns them. A batch with a wrong length on disk
    has this effect."""
    monkeypatch.setattr(reader, "PATIENCE_S", 0.5)
    open_producer(broker_431.bootstrap, "nothing-comes")
    with connect(broker_431.bootstrap) as client:
        layout = topic_layout(client, TOPIC)
    assert layout is not None
    end, leader = log_ends(broker_431.bootstrap)[0], layout.leaders[0]
    promised = RangeRead(0, layout.topic_id, 0, end, end + 5, leader.node, leader.epoch, 0, end + 5, 0, 0, 0, None)
    with pytest.raises(KafkaUnavailable, match=f"{TOPIC}-0: no records arrive from offset {end} on"):
        list(reader.read_ranges(ClientSettings.load(broker_431.bootstrap, None), TOPIC, [promised]))
