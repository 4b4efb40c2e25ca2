"""Folding: what many records of an id amount to, whatever pieces they came in."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain import outcomes, states
from service.domain.facts import UNSEEN, LogRecord, Run
from spark_jobs.fold import Records, Runs, concat, merge
from spark_jobs.rows import batches_from_rows, runs_to_rows

Entry = tuple[int, bytes, LogRecord]  # partition, transactional id, record


def singles(log: list[Entry]) -> Runs:
    """Every record as a run of its own, in columns."""
    partitions, ids, records = zip(*log, strict=True)
    columns = Records(*(np.array(column, np.int64) for column in zip(*records, strict=True)))
    nothing = np.zeros(len(log), np.int64)
    participants = np.empty(len(log), object)
    participants[:] = [()] * len(log)
    return Runs(
        partition=np.array(partitions, np.int32),
        transactional_id=pa.array(ids, pa.binary()),
        first=columns,
        last=columns,
        joined=np.zeros(len(log), np.bool_),
        records=nothing + 1,
        commits=nothing,
        aborts=nothing,
        participants=participants,
    )


def facts(runs: Runs) -> list[Run]:
    table = pa.Table.from_batches([runs_to_rows(runs)])
    (batch,) = batches_from_rows(table)
    return sorted(batch.runs, key=lambda run: (run.partition, run.transactional_id, run.first.offset))


def by_hand(log: list[Entry]) -> list[Run]:
    """The same by going through the records of each id one by one."""
    found = []
    for (partition, transactional_id), entries in groupby(
        sorted(log, key=lambda e: (*e[:2], e[2].offset)), lambda e: e[:2]
    ):
        before = UNSEEN
        for _, run in groupby((e[2] for e in entries), lambda r: r.producer_id):
            records = list(run)
            joined = before is not UNSEEN
            pairs = list(zip([before, *records], records, strict=False))[0 if joined else 1 :]
            found.append(
                Run(
                    partition,
                    transactional_id,
                    records[0],
                    records[-1],
                    joined,
                    len(records),
                    sum(bool(outcomes.commits(a, b)) for a, b in pairs),
                    sum(bool(outcomes.aborts(a, b)) for a, b in pairs),
                    (),
                )
            )
            before = records[-1]
    return found


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """Up to 40 records of a few ids; any state may follow any other, as it may on a real log."""
    log = []
    for offset in range(draw(st.integers(1, 40))):
        partition = draw(st.integers(0, 1))
        record = UNSEEN._replace(
            offset=offset,
            timestamp_ms=1000 + offset,
            state=draw(st.sampled_from([*states.PERSISTED, states.EXPIRED, states.UNKNOWN])),
            producer_id=draw(st.integers(-1, 1)),
            start_ms=draw(st.integers(0, 2)),
            partition_count=draw(st.integers(0, 1)),
        )
        log.append((partition, draw(st.sampled_from([b"a", b"b", b"\xff\x00"])), record))
    return log


@given(logs())
@settings(deadline=None)
def test_folding_columns_equals_going_through_the_records_by_hand(log: list[Entry]) -> None:
    assert facts(merge(singles(log))) == by_hand(log)


@given(logs(), st.data())
@settings(deadline=None)
def test_the_pieces_in_which_a_log_is_read_make_no_difference(log: list[Entry], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(log)), max_size=4)) | {0, len(log)})
    pieces = [merge(singles(log[a:b])) for a, b in pairwise(cuts)]
    assert facts(merge(concat(pieces))) == by_hand(log)


def a_log(*record: dict[str, Any]) -> list[Entry]:
    return [(0, b"id", UNSEEN._replace(offset=i, **fields)) for i, fields in enumerate(record)]


def test_a_repeated_append_of_the_coordinator_is_one_commit() -> None:
    done = {"state": states.COMPLETE_COMMIT, "producer_id": 1, "start_ms": 5}
    prepared = done | {"state": states.PREPARE_COMMIT}
    (run,) = facts(merge(singles(a_log(prepared, done, done))))
    assert (run.commits, run.aborts) == (1, 0)


def test_two_commits_within_one_millisecond_are_two() -> None:
    done = {"state": states.COMPLETE_COMMIT, "producer_id": 1, "start_ms": 5}
    prepared = done | {"state": states.PREPARE_COMMIT}
    (run,) = facts(merge(singles(a_log(prepared, done, prepared, done))))
    assert run.commits == 2


def test_aborting_an_empty_transaction_is_no_abort() -> None:
    """KIP-890: a TV2 client may abort without having added a partition."""
    done = {"state": states.COMPLETE_ABORT, "producer_id": 1, "start_ms": 5}
    prepared = done | {"state": states.PREPARE_ABORT}
    assert facts(merge(singles(a_log(prepared, done))))[0].aborts == 0
    assert facts(merge(singles(a_log(prepared | {"partition_count": 1}, done))))[0].aborts == 1


def test_a_new_producer_id_begins_a_new_run_that_knows_its_predecessor() -> None:
    """Epoch exhaustion under TV2: the completing record carries the next producer id."""
    log = a_log(
        {"state": states.PREPARE_COMMIT, "producer_id": 1, "start_ms": 5, "partition_count": 1},
        {"state": states.COMPLETE_COMMIT, "producer_id": 2, "start_ms": 5},
    )
    old, new = facts(merge(singles(log)))
    assert (old.last.producer_id, old.joined, old.commits) == (1, False, 0)
    assert (new.first.producer_id, new.joined, new.commits) == (2, True, 1)
