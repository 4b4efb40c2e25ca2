"""Tests that headers of tailed partitions become volume and markers. Each batch counts once, wherever the log is split
into chunks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from service.domain.partitions.ledger import NOTHING, Marker, Unended, Volume
from service.wire.log_columns import Chunk
from spark_jobs.fold.ledger import OLDEST_MS, Tail
from tests.helpers.builders.batches import ABORT, COMMIT, TRANSACTIONAL, ZSTD, Rec, batch, control_batch

MINUTE_MS = 60_000
NOW_MS = 1_700_000_040_000  # a whole minute


def records(base: int, count: int, *, at_ms: int = NOW_MS - 1, attributes: int = 0) -> bytes:
    made = [Rec(b"k", b"value", n) for n in range(count)]
    return batch(made, base, timestamp_ms=at_ms, attributes=attributes, producer_id=7, producer_epoch=2)


def marker(kind: int, base: int, at_ms: int = NOW_MS - 1) -> bytes:
    return control_batch(kind, base, producer_id=7, producer_epoch=2, coordinator_epoch=5, timestamp_ms=at_ms)


def tailed(*pieces: tuple[int, int, bytes], partition: int = 3) -> tuple[Tail, list[tuple[int, int]]]:
    tail = Tail("pay")
    return tail, [tail.add(Chunk(partition, *piece), 1, NOW_MS) for piece in pieces]


def test_volume_and_markers_of_a_partition() -> None:
    """A compressed batch counts with the number of records in its header."""
    data, packed = records(0, 3), records(3, 4, attributes=TRANSACTIONAL | ZSTD)
    commit, abort = marker(COMMIT, 7), marker(ABORT, 8, NOW_MS - MINUTE_MS - 1)
    tail, reached = tailed((0, 9, data + packed + commit + abort))
    assert reached == [(9, 7)]
    assert tail.volumes == [
        Volume("pay", 3, NOW_MS - 2 * MINUTE_MS, 0, len(abort), 0, 0, 1),
        Volume("pay", 3, NOW_MS - MINUTE_MS, 7, len(data + packed + commit), 4, 1, 0),
    ]
    assert tail.markers == [
        Marker("pay", 3, 1, 7, 7, 2, 5, True, NOW_MS - 1, 3),
        Marker("pay", 3, 1, 8, 7, 2, 5, False, NOW_MS - MINUTE_MS - 1, NOTHING),
    ]
    assert tail.unended == []


def test_a_marker_is_matched_with_records_of_earlier_reads() -> None:
    """Two producers write in two chunks. Batches outside of transactions must not count as parts of a transaction."""
    other = batch([Rec(b"k", b"v", 0)], 1, attributes=TRANSACTIONAL, producer_id=9, producer_epoch=0)
    first = records(0, 1) + other + records(2, 1, attributes=TRANSACTIONAL) + records(3, 1, attributes=TRANSACTIONAL)
    second = marker(COMMIT, 4) + marker(COMMIT, 5) + records(6, 2, attributes=TRANSACTIONAL)
    tail, _ = tailed((0, 4, first), (4, 8, second))
    assert [(marker.offset, marker.ends_from) for marker in tail.markers] == [(4, 2), (5, NOTHING)]
    assert tail.unended == [Unended("pay", 3, 7, 6), Unended("pay", 3, 9, 1)]


@pytest.mark.parametrize("at_ms", [-1, 0, NOW_MS - OLDEST_MS, NOW_MS + 1, 2**62])
def test_a_batch_with_an_invalid_timestamp_counts_at_the_time_of_reading(at_ms: int) -> None:
    """If the batch counted at its own timestamp, a producer could make the store keep a row for every possible
    minute."""
    tail, _ = tailed((0, 1, records(0, 1, at_ms=at_ms)))
    assert [volume.minute_ms for volume in tail.volumes] == [NOW_MS]


def test_a_batch_that_is_cut_off_counts_with_the_next_fetch() -> None:
    first, second = records(0, 2), records(2, 2)
    tail, reached = tailed((0, 4, first + second[:-1]), (2, 4, second))
    assert reached == [(2, 2), (4, 2)]
    assert [(volume.records, volume.bytes) for volume in tail.volumes] == [(4, len(first + second))]


def test_bytes_without_a_whole_batch_do_not_advance_the_position() -> None:
    tail, reached = tailed((5, 9, records(5, 4)[:70]), (5, 9, b""))
    assert reached == [(5, 0), (5, 0)]
    assert tail.volumes == []


def test_holes_left_by_compaction_advance_the_position() -> None:
    tail, reached = tailed((3, 50, records(0, 2) + records(60, 1)))
    assert reached == [(50, 0)]
    assert sum(volume.records for volume in tail.volumes) == 0


@pytest.mark.parametrize("seed", range(20))
def test_the_sums_do_not_depend_on_where_a_log_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    log, end = a_log(chance)
    whole, _ = tailed((0, end, b"".join(data for _, data in log)))
    borders = sorted({0, end, *(chance.randrange(end) for _ in range(6))})
    volumes: list[Volume] = []
    markers: list[Marker] = []
    unended: dict[tuple[int, int], int] = {}
    for lo, hi in pairwise(borders):
        # a fetch begins with the batch that contains the offset, and may go beyond the range
        tail, reached = tailed((lo, hi, b"".join(data for behind, data in log if behind > lo)))
        assert reached[0][0] == hi
        volumes += tail.volumes
        for one in tail.markers:  # the store joins records and markers of different reads in this way
            earlier = unended.pop((one.partition, one.producer_id), one.ends_from)
            markers.append(one._replace(ends_from=earlier))
        for left in tail.unended:
            unended.setdefault((left.partition, left.producer_id), left.from_offset)
    assert markers == whole.markers
    assert unended == {(one.partition, one.producer_id): one.from_offset for one in whole.unended}
    assert sums(volumes) == sums(whole.volumes)


def a_log(chance: random.Random) -> tuple[list[tuple[int, bytes]], int]:
    """Returns 30 batches, each with the offset that follows it, and the end offset of the log."""
    log, end = [], 0
    for _ in range(30):
        count = chance.choice((1, 1, 2, 7))
        kind = chance.choice((ABORT, COMMIT, None, None))
        data = records(end, count, attributes=TRANSACTIONAL) if kind is None else marker(kind, end)
        end += count if kind is None else 1
        log.append((end, data))
    return log, end


def sums(volumes: Sequence[Volume]) -> list[int]:
    return [sum(column) for column in list(zip(*volumes, strict=True))[3:]]
