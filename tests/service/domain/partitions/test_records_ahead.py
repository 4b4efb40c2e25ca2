"""The records that a group has left to read: committed records before the LSO, not markers, not aborted ones."""

from __future__ import annotations

import pytest

from service.domain.partitions.facts import BatchOffsets, MarkerType
from service.domain.partitions.state import AnyRecords, CommittedRecords


def data(first: int, count: int = 1, producer_id: int = 7, transactional: bool = True) -> BatchOffsets:
    return BatchOffsets(first, first + count, producer_id, 0, transactional)


def marker(at: int, outcome: MarkerType | None, producer_id: int = 7) -> BatchOffsets:
    return BatchOffsets(at, at + 1, producer_id, 0, True, True, outcome)


def found(offset: int, lso: int, *batches: BatchOffsets, records: int = 1) -> bool | None:
    search = CommittedRecords(offset, lso)
    for one in batches:
        search.add(one, 0 if one.is_control else records)
    return search.found


@pytest.mark.parametrize(
    ("expected", "batches"),
    [
        (False, [marker(5, MarkerType.COMMIT), data(6, producer_id=8)]),  # one marker short
        (
            False,
            [data(5), marker(6, MarkerType.ABORT), data(7, producer_id=8)],
        ),  # behind the LSO everything may be open
        (False, [data(4, 2), marker(6, MarkerType.ABORT)]),  # a batch that begins before the offset
        (False, [data(5), data(6, producer_id=8), marker(7, MarkerType.ABORT)]),  # the marker lies beyond the LSO
        (True, [data(5), data(6, producer_id=8), marker(7, MarkerType.COMMIT)]),
        (True, [data(5, transactional=False, producer_id=-1)]),
        (True, [data(5), marker(6, MarkerType.COMMIT)]),
        (True, [data(5), marker(6, MarkerType.ABORT, producer_id=9), marker(7, MarkerType.COMMIT)]),
        (None, [data(5)]),  # a bound ended the reading
        (None, [data(5), data(6, producer_id=8), marker(7, None)]),
        (None, [data(4)]),  # nothing of it yet
        (False, [data(9)]),  # compaction removed everything before
    ],
)
def test_what_is_left_before_the_lso(expected: bool | None, batches: list[BatchOffsets]) -> None:
    lso = 7 if len(batches) == 2 and batches[0] == data(4, 2) else 6
    assert found(5, lso, *batches) is expected


def test_a_batch_that_compaction_emptied_is_nothing_to_read() -> None:
    assert found(5, 6, data(5), marker(6, MarkerType.COMMIT), records=0) is False


def test_for_a_reader_of_uncommitted_records_any_record_counts() -> None:
    search = AnyRecords(5)
    for one in (data(4), marker(5, MarkerType.ABORT), marker(6, MarkerType.COMMIT)):
        search.add(one, 1)
    assert search.found is None
    search.add(data(7), 0)
    assert search.found is None
    search.add(data(8), 1)
    assert search.found
