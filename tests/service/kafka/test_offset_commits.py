"""Tests of reading the offsets that open transactions commit, from the batches of a log in memory."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest

from service.domain.partitions.group_offsets import OFFSETS_TOPIC
from service.kafka import errors, fetch, offset_commits
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.kafka.fetch import Fetched, PartitionFetch
from service.kafka.offset_commits import CommitsRead, SearchRange, read_commits
from service.wire.offset_keys import OffsetKey
from tests.helpers.builders.batches import COMMIT, GZIP, TRANSACTIONAL, Rec, batch, control_batch

LEADER = Leader(1, 5)
PID, OTHER = 7, 8
EACH = 10
"""The number of offsets of a batch."""
BILLING = OffsetKey("billing", "orders", 0)


def key(offset_key: OffsetKey, kind: int = 1) -> bytes:
    group, topic = offset_key.group.encode(), offset_key.topic.encode()
    return struct.pack(
        f">hh{len(group)}sh{len(topic)}si", kind, len(group), group, len(topic), topic, offset_key.partition
    )


def commit(
    number: int,
    *records: bytes,
    at_ms: int | None = None,
    producer_id: int = PID,
    codec: int = 0,
    value: bytes | None = b"value",
    is_transactional: bool = True,
) -> bytes:
    """Returns batch `number` of a log. By default its timestamp is 1,000 + `number` (ms)."""
    return batch(
        [Rec(one, value, delta) for delta, one in enumerate(records or [key(BILLING)])],
        EACH * number,
        timestamp_ms=1_000 + number if at_ms is None else at_ms,
        last_offset_delta=EACH - 1,
        leader_epoch=5,
        attributes=codec | (TRANSACTIONAL if is_transactional else 0),
        producer_id=producer_id,
        producer_epoch=0,
    )


class Log:
    """A log in memory, from batch `start` on. Each batch has EACH offsets, and an answer has at most `at_once`
    batches."""

    def __init__(self, patch: pytest.MonkeyPatch, *batches: bytes, start: int = 0, at_once: int = 100) -> None:
        self.batches, self.start, self.at_once, self.error = batches, start, at_once, errors.NONE
        self.asked: list[int] = []
        patch.setattr(fetch, "fetch_many", self.fetch)

    def fetch(
        self, _client: object, node: int, wanted: Mapping[str, Sequence[PartitionFetch]], *_: int, **__: int
    ) -> list[Fetched]:
        ((topic, (partition_fetch,)),) = wanted.items()
        assert (node, topic, partition_fetch.partition, partition_fetch.leader_epoch) == (1, OFFSETS_TOPIC, 3, 5)
        self.asked.append(partition_fetch.offset)
        if self.error:
            return [Fetched(topic, 3, self.error, -1, -1, -1, b"")]
        if partition_fetch.offset < EACH * self.start:
            return [Fetched(topic, 3, errors.OFFSET_OUT_OF_RANGE, -1, -1, -1, b"")]
        first = partition_fetch.offset // EACH
        some = self.batches[first : first + self.at_once]
        return [Fetched(topic, 3, 0, len(self.batches), -1, self.start, b"".join(some))]

    def read(self, *sought: tuple[int, SearchRange]) -> CommitsRead:
        client: KafkaClient = object()  # type: ignore[assignment]
        return read_commits(client, 3, LEADER, dict(sought), EACH * len(self.batches))


def newest(number: int, lo: int = 0, producer_id: int = PID) -> tuple[int, SearchRange]:
    """Returns a search for the batches of a producer id. The search begins at batch `lo`. The newest batch of the
    producer id is `number`."""
    return producer_id, SearchRange(EACH * lo, 1_000 + number)


def test_each_open_transaction_has_its_own_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    eos = OffsetKey("eos", "orders", 1)
    log = Log(
        monkeypatch,
        commit(0, key(BILLING), key(BILLING._replace(partition=1), kind=0)),
        commit(1, key(eos), producer_id=OTHER, codec=GZIP),
        commit(2, key(OffsetKey("committed", "orders", 0)), producer_id=9),
        commit(3, key(OffsetKey("plain", "orders", 0)), is_transactional=False),
        commit(4, key(BILLING._replace(topic="pay"))),
    )
    found = log.read(newest(4), newest(1, producer_id=OTHER))
    assert found.commits[PID].offsets == {
        BILLING,
        BILLING._replace(partition=1),
        BILLING._replace(topic="pay"),
    }
    assert found.commits[OTHER].offsets == {eos}
    assert all(commit.has_newest and not commit.undecodable for commit in found.commits.values())
    assert (found.reached, found.damaged) == (5 * EACH, 0)
    assert found.read_bytes == sum(map(len, log.batches))


def test_earlier_batches_and_markers_are_not_part_of_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    before = commit(0, key(OffsetKey("before", "orders", 0)))
    marker = control_batch(COMMIT, EACH, producer_id=PID)
    log = Log(monkeypatch, before, marker, commit(2))
    found = log.read(newest(2, lo=2), newest(0, lo=0, producer_id=OTHER))
    assert found.commits[PID].offsets == {BILLING}
    assert not found.commits[OTHER].has_newest


def test_other_records_are_left_out_and_unknown_records_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    group_metadata = struct.pack(">hh", 2, 7) + b"billing"
    log = Log(
        monkeypatch,
        commit(0, group_metadata, struct.pack(">h", 24), struct.pack(">h", 24), b"\0\1\0\x09cut", key(BILLING)),
        commit(1, key(OffsetKey("deleted", "orders", 0)), value=None),
    )
    found = log.read(newest(1)).commits[PID]
    assert found.offsets == {BILLING}
    assert found.undecodable == {"unknown_key_version": 2, "malformed_key": 1}


def test_a_batch_that_cannot_be_decompressed_counts_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_commits, "PLAIN_BYTES", 50)
    log = Log(monkeypatch, commit(0, *[key(BILLING)] * 3, codec=GZIP), commit(1))
    found = log.read(newest(1)).commits[PID]
    assert (found.offsets, found.undecodable) == ({BILLING}, {"bad_codec": 3})


def test_reading_ends_after_the_newest_batches_of_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops at the first batch that is newer than these batches and has another producer id."""
    others = [commit(n, producer_id=9) for n in range(3, 50)]
    same_ms = commit(2, key(BILLING._replace(partition=1)), at_ms=1_001)
    log = Log(monkeypatch, commit(0), commit(1), same_ms, *others, at_once=5)
    found = log.read(newest(1))
    assert found.commits[PID].offsets == {BILLING, BILLING._replace(partition=1)}
    assert (found.reached, log.asked) == (4 * EACH, [0])
    assert log.read(newest(1), newest(48, producer_id=9)).reached == 50 * EACH


def test_one_pass_is_bounded_and_the_next_pass_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, *(commit(n, producer_id=9) for n in range(9)), commit(9), at_once=2)
    monkeypatch.setattr(offset_commits, "PASS_BYTES", 4 * len(log.batches[0]))
    first = log.read(newest(9))
    assert (first.reached, first.commits[PID].has_newest) == (4 * EACH, False)
    again = log.read(newest(9, lo=4))
    assert (again.reached, again.commits[PID].has_newest) == (8 * EACH, False)
    assert log.read(newest(9, lo=8)).commits[PID].offsets == {BILLING}


def test_damaged_batches_are_counted_and_deleted_ones_stop_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = bytearray(commit(0))
    broken[-1] ^= 1
    found = Log(monkeypatch, bytes(broken), commit(1)).read(newest(1))
    assert (found.damaged, found.commits[PID].offsets) == (1, {BILLING})
    gone = Log(monkeypatch, b"", b"", commit(2), start=2).read(newest(2))
    assert (gone.reached, gone.commits[PID].has_newest) == (0, False)


def test_a_denied_read_and_a_failed_read_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, commit(0))
    log.error = errors.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaRefused, match="READ"):
        log.read(newest(0))
    log.error = 6  # NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaUnavailable):
        log.read(newest(0))
