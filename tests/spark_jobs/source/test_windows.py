"""Tests of open producers and of the volume of their records, which are read from batch headers alone. Also tests the
cache of these data, which workers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.partitions.facts import EPOCH_NOT_REPORTED, FirstBatch, OpenEntry
from spark_jobs.source.window import Key, Window, WindowCache
from tests.helpers.builders.batches import ABORT, TRANSACTIONAL, Rec, batch, control_batch


def data(base: int, producer_id: int, epoch: int = 0, records: int = 1, *, at_ms: int = 100) -> bytes:
    some = [Rec(b"k", b"v", n, n) for n in range(records)]
    return batch(
        some, base, timestamp_ms=at_ms, attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=epoch
    )


def test_records_that_a_marker_closed_are_not_open() -> None:
    window = Window(10)
    log = [data(10, 1), data(11, 2, 4, 3), control_batch(ABORT, 14, producer_id=1, producer_epoch=1), data(15, 2, 4)]
    window.extend(b"".join(log))
    assert window.first == FirstBatch(10, 1, 0, True, False, 100, 100)
    size = len(log[1]) + len(log[3])
    assert window.entries(is_whole=True) == (OpenEntry(2, 4, 11, EPOCH_NOT_REPORTED, 102, 4, size),)
    assert window.entries(is_whole=False) == (OpenEntry(2, 4, 11, EPOCH_NOT_REPORTED, 102),)
    assert (window.next_offset, window.size) == (16, sum(map(len, log)))


def test_a_producer_that_writes_after_its_marker_is_open_from_there() -> None:
    window = Window(10)
    window.extend(data(10, 1) + control_batch(ABORT, 11, producer_id=1, producer_epoch=0) + data(12, 1, 0, 2))
    (entry,) = window.entries(is_whole=True)
    assert (entry.start_offset, entry.records) == (12, 2)


def test_a_marker_of_an_older_epoch_closes_nothing() -> None:
    window = Window(10)
    window.extend(data(10, 1, 5) + control_batch(ABORT, 11, producer_id=1, producer_epoch=4))
    assert [entry.producer_id for entry in window.entries(is_whole=True)] == [1]


def test_records_outside_transactions_count_but_open_no_entry() -> None:
    window = Window(10)
    log = data(10, 1) + batch([Rec(b"k", b"v")], 11) + batch([Rec(b"k", b"v")], 12, producer_id=9, producer_epoch=0)
    window.extend(log)
    assert [entry.producer_id for entry in window.entries(is_whole=True)] == [1]
    assert window.size == len(log)


@pytest.mark.parametrize("cut", [61, 75, 90, 150, 200])
def test_overlapping_and_cut_pieces_equal_a_single_read(cut: int) -> None:
    log = [data(10, 1, records=2), data(12, 2), control_batch(ABORT, 13, producer_id=2, producer_epoch=0), data(14, 3)]
    base = [10, 12, 13, 14]
    whole, pieces = Window(11), Window(11)
    whole.extend(b"".join(log))
    while pieces.next_offset < whole.next_offset:
        fetched = b"".join(one for at, one in zip([*base[1:], 99], log, strict=True) if at > pieces.next_offset)
        pieces.extend(fetched[:cut])
    assert pieces == whole
    assert whole.first is not None
    assert whole.first.base_offset == 10


def test_bytes_that_are_no_batch_header_end_the_reading() -> None:
    window = Window(10)
    window.extend(data(10, 1))
    broken = [window.is_broken]
    window.extend(b"\xff" * 100)
    assert [*broken, window.is_broken] == [False, True]
    assert [entry.producer_id for entry in window.entries(is_whole=False)] == [1]


def window(offset: int, producer_id: int = 1) -> Window:
    found = Window(offset)
    found.extend(data(offset, producer_id))
    return found


def test_another_worker_continues_from_the_cached_window(tmp_path: Path) -> None:
    path = str(tmp_path / "windows.db")
    key, read = Key("id", 0, 10), window(10)
    WindowCache(path).keep({key: read, Key("id", 1, 10): Window(10, is_broken=True)})
    found = WindowCache(path).find([key, Key("id", 1, 10), Key("other", 0, 10)])
    assert found == {key: read, Key("id", 1, 10): Window(10, is_broken=True)}
    for one in (read, found[key]):
        one.extend(data(11, 2))
    assert found[key] == read
    assert [entry.producer_id for entry in found[key].entries(is_whole=True)] == [1, 2]


def test_the_cache_keeps_the_newest_lso_of_the_latest_partitions(tmp_path: Path) -> None:
    kept = WindowCache(str(tmp_path / "windows.db"), max_windows=3)
    first, second = Key("id", 0, 10), Key("id", 0, 20)
    kept.keep({first: window(10)})
    kept.keep({second: window(20)})
    assert list(kept.find([first, second])) == [second]
    more = [Key("id", partition, 10) for partition in range(1, 4)]
    kept.keep({key: window(10) for key in more})
    assert list(kept.find([second, *more])) == more
