"""Tests of runs of aborted records, and of the records that a group still has to read.

For random logs, the expected values come from a model of a consumer that reads offset by offset.
"""

from __future__ import annotations

from random import Random

import pytest

from service.domain.partitions.aborted_run import AbortedRun, EndOfRun, OnlyAborted, only_aborted_text
from service.domain.partitions.facts import BatchOffsets, MarkerType
from service.domain.partitions.state import AnyRecords, CommittedRecords


def data(first: int, producer_id: int, count: int = 1, records: int | None = None) -> BatchOffsets:
    return BatchOffsets(first, first + count, producer_id, 0, producer_id >= 0, records=records)


def marker(at: int, producer_id: int, outcome: MarkerType | None) -> BatchOffsets:
    return BatchOffsets(at, at + 1, producer_id, 0, True, True, outcome)


def run_of(batches: list[BatchOffsets], offset: int, lso: int | None = None, most: int = 10_000) -> OnlyAborted | None:
    run = AbortedRun(offset, most)
    end = batches[-1].next if batches else offset
    if lso is not None:
        run.end_at_last_stable_offset(lso, end)
    for batch in batches:
        run.add_batch(batch)
    return run.finish(end, is_whole=True)


def many_aborted(transactions: int, size: int) -> list[BatchOffsets]:
    """Returns a log of aborted transactions. Ten producers take turns. The log ends with the last marker."""
    log = []
    for number in range(transactions):
        at = number * (size + 1)
        log += [data(at, number % 10, size), marker(at + size, number % 10, MarkerType.ABORT)]
    return log


def test_a_long_run_is_summed_up_to_the_first_record_that_can_be_read() -> None:
    log = [*many_aborted(1_030, 20), data(21_630, 99), marker(21_631, 99, MarkerType.COMMIT), data(21_632, -1)]
    found = run_of(log, 0)
    assert found == OnlyAborted(0, 21_630, 20_600, dict.fromkeys(range(10), 103), EndOfRun.READABLE)
    middle = run_of(log, 30)
    assert middle is not None
    assert (middle.to, middle.records, sum(middle.transactions.values())) == (21_630, 20_600 - 29, 1_029)


@pytest.mark.parametrize(
    ("log", "lso", "to", "ended_by"),
    [
        ([data(0, 1), marker(1, 1, MarkerType.ABORT)], None, 2, "log_end"),
        ([data(0, 1), marker(1, 1, MarkerType.ABORT)], 2, 2, "log_end"),
        ([data(0, 1), marker(1, 1, MarkerType.ABORT), data(2, 2), data(3, -1)], 2, 2, "open"),
        ([data(0, 1), marker(1, 1, MarkerType.ABORT), data(2, 2)], None, 2, "open"),
        ([data(0, 1), marker(1, 1, MarkerType.ABORT), data(2, 2), marker(3, 2, None)], None, 2, "unknown"),
        (
            [data(0, 1), data(1, 2), marker(2, 1, MarkerType.ABORT), data(3, 1), marker(4, 2, MarkerType.COMMIT)],
            None,
            1,
            "readable",
        ),
        (
            [
                data(0, 1),
                marker(1, 1, MarkerType.ABORT),
                data(2, 2, records=0),
                marker(3, 2, MarkerType.COMMIT),
                data(4, -1),
            ],
            None,
            4,
            "readable",
        ),
        ([data(0, 1), marker(1, 1, MarkerType.ABORT), data(2, -1, records=0)], None, 3, "log_end"),
    ],
)
def test_a_run_reports_what_ended_it(log: list[BatchOffsets], lso: int | None, to: int, ended_by: str) -> None:
    found = run_of(log, 0, lso)
    assert found is not None
    assert (found.to, found.records, found.ended_by) == (to, 1, ended_by)
    assert found.open_producer_id in ((None, 2) if ended_by == "open" else (None,))


@pytest.mark.parametrize(
    "log", [[], [data(0, -1)], [data(0, 1), marker(1, 1, MarkerType.COMMIT)], [marker(0, 1, MarkerType.ABORT)]]
)
def test_no_run_where_no_aborted_record_comes_first(log: list[BatchOffsets]) -> None:
    assert run_of(log, 0) is None


def test_bytes_that_cannot_be_read_end_a_run() -> None:
    run = AbortedRun(0)
    for batch_offsets in (data(0, 1), marker(1, 1, MarkerType.ABORT), data(2, 2)):
        run.add_batch(batch_offsets)
    run.add_unreadable(3)
    run.add_batch(marker(4, 2, MarkerType.ABORT))
    assert run.is_done
    assert run.finish(5, is_whole=True) == OnlyAborted(0, 2, 1, {1: 1}, EndOfRun.UNKNOWN)


def test_a_run_that_stops_at_its_bound_is_true_up_to_there() -> None:
    found = run_of(many_aborted(50, 3), 0, most=20)
    assert found is not None
    assert (found.to, found.records, found.ended_by) == (79, 60, "bound")
    half = AbortedRun(0)
    for batch_offsets in many_aborted(50, 3)[:31]:  # reading stopped inside a transaction
        half.add_batch(batch_offsets)
    stopped = half.finish(63, is_whole=False)
    assert stopped is not None
    assert (stopped.to, stopped.records, stopped.ended_by) == (60, 45, "bound")


def test_a_run_equals_what_a_consumer_finds_offset_by_offset() -> None:
    for seed in range(500):
        log = _drawn(Random(seed))
        fates = _fates(log)
        offset = Random(seed).randrange(len(fates))
        expected = next((at for at in range(offset, len(fates)) if fates[at] not in ("aborted", "marker")), len(fates))
        records = fates[offset:expected].count("aborted")
        found = run_of(log, offset)
        assert (0 if found is None else found.records) == records, seed
        if found is not None:
            ended_by = "log_end" if expected == len(fates) else fates[expected]
            assert (found.to, found.ended_by) == (expected, ended_by), seed


def _drawn(random: Random) -> list[BatchOffsets]:
    log: list[BatchOffsets] = []
    for _ in range(random.randint(1, 40)):
        at = log[-1].next if log else 0
        producer_id = random.choice((1, 1, 2, 3))
        if random.random() < 0.03:
            log.append(data(at, -1))
        elif random.random() < 0.4:
            log.append(marker(at, producer_id, random.choices((MarkerType.ABORT, MarkerType.COMMIT), (9, 1))[0]))
        else:
            log.append(data(at, producer_id, random.randint(1, 3)))
    return log


def _fates(log: list[BatchOffsets]) -> list[str]:
    fates = []
    for number, batch_offsets in enumerate(log):
        ends = [later for later in log[number:] if later.is_control and later.producer_id == batch_offsets.producer_id]
        of = {None: "open", MarkerType.ABORT: "aborted", MarkerType.COMMIT: "readable"}[
            ends[0].marker if ends else None
        ]
        fate = "marker" if batch_offsets.is_control else of if batch_offsets.is_transactional else "readable"
        fates += [fate] * (batch_offsets.next - batch_offsets.first)
    return fates


def test_a_run_is_summed_up_in_a_sentence() -> None:
    names = ["x", "y", "z", "w"]
    assert only_aborted_text(0, 21_000, 20_000, 1_030, names[:2], 0, EndOfRun.READABLE) == (
        "Only aborted records from 0 to 20,999: 1,030 transactions of x, y, 20,000 records; the first readable record"
        " is at 21,000."
    )
    assert only_aborted_text(5, 7, 1, 1, names, 2, EndOfRun.BOUND) == (
        "Only aborted records from 5 to 6: 1 transaction of x, y, z and 3 more, 1 record; reading stopped at its bound,"
        " and the run may go on from 7."
    )


def records_at(first: int, count: int = 1, producer_id: int = 7, transactional: bool = True) -> BatchOffsets:
    return BatchOffsets(first, first + count, producer_id, 0, transactional)


def ended_at(at: int, outcome: MarkerType | None, producer_id: int = 7) -> BatchOffsets:
    return BatchOffsets(at, at + 1, producer_id, 0, True, True, outcome)


def found(offset: int, lso: int, *batches: BatchOffsets, records: int = 1) -> bool | None:
    search = CommittedRecords(offset, lso)
    for batch in batches:
        search.add(batch, 0 if batch.is_control else records)
    return search.found


@pytest.mark.parametrize(
    ("expected", "batches"),
    [
        (False, [ended_at(5, MarkerType.COMMIT), records_at(6, producer_id=8)]),  # only a marker is left before the LSO
        (
            False,
            [records_at(5), ended_at(6, MarkerType.ABORT), records_at(7, producer_id=8)],
        ),  # beyond the LSO every transaction may be open
        (False, [records_at(4, 2), ended_at(6, MarkerType.ABORT)]),  # a batch that begins before the requested offset
        (
            False,
            [records_at(5), records_at(6, producer_id=8), ended_at(7, MarkerType.ABORT)],
        ),  # the marker lies beyond the LSO
        (True, [records_at(5), records_at(6, producer_id=8), ended_at(7, MarkerType.COMMIT)]),
        (True, [records_at(5, transactional=False, producer_id=-1)]),
        (True, [records_at(5), ended_at(6, MarkerType.COMMIT)]),
        (True, [records_at(5), ended_at(6, MarkerType.ABORT, producer_id=9), ended_at(7, MarkerType.COMMIT)]),
        (None, [records_at(5)]),  # a bound ended the reading
        (None, [records_at(5), records_at(6, producer_id=8), ended_at(7, None)]),
        (None, [records_at(4)]),  # no batch was read yet
        (False, [records_at(9)]),  # compaction removed all batches before
    ],
)
def test_readable_records_before_the_lso_are_found(expected: bool | None, batches: list[BatchOffsets]) -> None:
    lso = 7 if len(batches) == 2 and batches[0] == records_at(4, 2) else 6
    assert found(5, lso, *batches) is expected


def test_a_batch_that_compaction_emptied_is_nothing_to_read() -> None:
    assert found(5, 6, records_at(5), ended_at(6, MarkerType.COMMIT), records=0) is False


def test_for_a_reader_of_uncommitted_records_any_record_counts() -> None:
    search = AnyRecords(5)
    for batch_offsets in (records_at(4), ended_at(5, MarkerType.ABORT), ended_at(6, MarkerType.COMMIT)):
        search.add(batch_offsets, 1)
    assert search.found is None
    search.add(records_at(7), 0)
    assert search.found is None
    search.add(records_at(8), 1)
    assert search.found
