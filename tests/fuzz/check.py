"""Checks the properties of every input, and classifies its outcome.

Many inputs are decoded together, each as the log of one partition, as executors decode the answers for many partitions.
If a group fails, its inputs are checked one by one, to find the failing one.
"""

from __future__ import annotations

import signal
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple
from unittest.mock import patch

import pyarrow as pa

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogBatch, RangeRead, Run
from service.kafka.fetch import Fetched, PartitionFetch
from service.kafka.settings import ClientSettings
from service.wire import errors
from service.wire.batches import claimed_end
from service.wire.log_columns import Chunk
from spark_jobs.fold.rows import batches_from_rows
from spark_jobs.source import reader
from tests.fuzz.mutate import HEADER_SIZE, Input, make
from tests.service.wire.comparing import assert_same_as_scalar

GROUP = 100
PATIENCE_S = 30
"""Time limit for a group of inputs. A longer time counts as a hang. Normally, a group takes a tenth of a second."""
MOST_ROUNDS = 400
"""Maximum number of fetches for a group. A broken batch is fetched twice. After a wrong length, the reader tries one
offset after the other."""
REASONS = frozenset(error.reason for error in errors.DecodeError.__subclasses__())
CONTROL, LOG_END = 0x20, 8 << 20


class Fault(NamedTuple):
    """An input whose check failed, and the failure."""

    seed: int
    number: int
    what: str


class Hung(Exception):
    """Raised if a group of inputs takes too long, or too many fetches."""


class Checked(NamedTuple):
    inputs: int
    crc_is_right: int
    lose_others: int
    outcomes: Counter[str]
    faults: list[Fault]


def check(seed: int, numbers: Sequence[int]) -> Checked:
    """Checks the inputs with these numbers as one group. If the check fails, checks each input alone."""
    inputs = [make(seed, number) for number in numbers]
    right = sum(one.crc_is_right for one in inputs)
    lose = sum(any(_is_lost(one, offset) for offset in one.good) for one in inputs)
    outcomes, what = _tried(inputs)
    if what is None:
        return Checked(len(inputs), right, lose, outcomes, [])
    if len(inputs) == 1:
        return Checked(1, right, lose, outcomes, [Fault(seed, numbers[0], what)])
    alone = [check(seed, [number]) for number in numbers]
    faults = [fault for checked in alone for fault in checked.faults]
    if not faults:
        faults = [Fault(seed, numbers[0], f"fails only together with the {len(inputs) - 1} inputs after it: {what}")]
    return Checked(len(inputs), right, lose, sum((checked.outcomes for checked in alone), Counter()), faults)


def _tried(inputs: Sequence[Input]) -> tuple[Counter[str], str | None]:
    outcomes: Counter[str] = Counter()
    try:
        with _no_longer_than(PATIENCE_S):
            outcomes.update(_outcomes(inputs))
    except Exception:  # any exception is a failed check
        return Counter(), traceback.format_exc(limit=-6)
    return outcomes, None


@contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise Hung(f"more than {seconds} s")

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _outcomes(inputs: Sequence[Input]) -> list[str]:
    """Checks that the columnar and the scalar decoder return the same for the inputs. Then reads the inputs as
    executors do, and checks every record and reject. Returns the outcome of each input."""
    assert_same_as_scalar([Chunk(p, one.lo, one.hi, one.log) for p, one in enumerate(inputs)])
    batch = _read(inputs)
    runs: list[list[Run]] = [[] for _ in inputs]
    rejected: list[dict[int, str]] = [{} for _ in inputs]
    for run in batch.runs:
        runs[run.partition].append(run)
    for reject in batch.rejects:
        one = inputs[reject.partition]
        assert reject.reason in REASONS, reject
        is_there = one.bad[0] <= reject.offset < one.bad[1] or _is_lost(one, reject.offset)
        is_there |= reject.offset == one.bad[1] and one.claimed_end < one.end_of_bad  # the rest of the mutated batch
        claims = _base(one, one.position_of_bad), claimed_end(one.log, one.position_of_bad)
        is_there |= claims[0] <= reject.offset < claims[1] and one.claimed_end != one.end_of_bad
        is_there |= reject.offset == claims[0] <= one.bad[0] < claims[1]  # the batch begins where its header claims
        assert is_there, f"{reject}; {_place(one)}"
        rejected[reject.partition][reject.offset] = reject.reason
    return [_outcome(*of_input) for of_input in zip(inputs, runs, rejected, strict=True)]


def _outcome(one: Input, runs: Sequence[Run], rejected: dict[int, str]) -> str:
    """Returns the outcome of the mutated batch: "record", the reasons of rejects, or "stepped over"."""
    by_id = {(run.transactional_id, run.last.offset): run for run in runs}
    for offset, good in one.good.items():
        if _is_lost(one, offset):
            continue
        run = by_id.pop((good.transactional_id, offset), None)
        assert run is not None, f"{good} at {offset} is missing: {runs}; rejected {rejected}; {_place(one)}"
        assert run.records == 1, run
        assert (run.last.producer_id, run.last.state) == (good.producer_id, good.status), run
    if rejected:
        return " ".join(sorted(set(rejected.values())))
    if by_id:
        assert all(run.last.state != states.UNKNOWN for run in runs), "an undecodable value must leave a reject"
        return "record"
    assert _holds_nothing(one) or _is_elsewhere(one), f"neither a record nor a reject: {_place(one)}"
    return "stepped over"


def _place(one: Input) -> str:
    return (
        f"the mutated batch is at byte {one.position_of_bad}, claims to end at byte {one.claimed_end}, and has the"
        f" offsets {one.bad}; all batches (byte, offset): {one.begins}"
    )


def _is_lost(one: Input, offset: int) -> bool:
    """Returns whether the mutated batch has a wrong length that hides a later batch, the one at `offset`.

    Readers find a batch by the lengths of the batches before it, or by the next offset, which they request from the
    broker. So a wrong length hides each batch inside the claimed length. If the first or last offset of the mutated
    batch is wrong, too, or if the bytes at the claimed end look like the next batch, all later batches count as hidden.
    """
    if offset < one.bad[1] or one.claimed_end == one.end_of_bad:
        return False
    claims = _base(one, one.position_of_bad), _base(one, one.claimed_end)
    is_inside = _position(one, offset) < one.claimed_end <= len(one.log)
    is_elsewhere = claims[0] != one.bad[0] or claimed_end(one.log, one.position_of_bad) != one.bad[1]
    return is_inside or is_elsewhere or claims[1] == one.bad[1]


def _position(one: Input, offset: int) -> int:
    return next((position for position, begin in one.begins if begin == offset), -1)


def _base(one: Input, position: int) -> int:
    return int.from_bytes(one.log[max(position, 0) :][:8], "big", signed=True)


def _holds_nothing(one: Input) -> bool:
    """Returns whether the header of the mutated batch marks it as a control batch, or says that it has no records."""
    header = one.log[one.position_of_bad :][:HEADER_SIZE]
    return bool(header[22] & CONTROL) or header[57:61] == bytes(4)


def _is_elsewhere(one: Input) -> bool:
    """Returns whether the mutated batch has a wrong length, and a base offset at or above the end of the read range. A
    reader takes such a batch for a hole that compaction left."""
    return one.claimed_end != one.end_of_bad and _base(one, one.position_of_bad) >= one.hi


def _read(inputs: Sequence[Input]) -> LogBatch:
    """Reads all ranges to their ends, from a simulated broker. Returns the LogBatch that the driver decodes from the
    result."""
    ranges = [
        RangeRead(p, "topic", 0, one.lo, one.hi, 1, 0, one.lo, one.hi, 0, 0, 0, None) for p, one in enumerate(inputs)
    ]
    rounds = 0

    def answer(
        _client: object, _node: int, asked: Mapping[str, Sequence[PartitionFetch]], *_: int, **__: int
    ) -> list[Fetched]:
        nonlocal rounds
        wanted = asked["topic"]
        rounds += 1
        if rounds > MOST_ROUNDS:
            raise Hung(f"{rounds} fetches, and the reader still asks for {wanted[:3]}")
        return [
            Fetched("topic", w.partition, 0, inputs[w.partition].hi, -1, 0, _from(inputs[w.partition], w.offset))
            for w in wanted
        ]

    with patch.object(reader, "fetch_many", answer), patch.dict(reader.clients, {SETTINGS: None}):
        rows = list(reader.read_ranges(SETTINGS, "topic", ranges, history_prefixes=(b"bad",)))
    (batch,) = batches_from_rows(pa.Table.from_batches(rows))
    assert [r.partition for r in batch.ranges] == [r.partition for r in ranges]
    return batch


SETTINGS = ClientSettings.load("nowhere:9092", None)


def _from(one: Input, offset: int) -> bytes:
    """Returns the log from the batch that contains the offset. A broker finds this batch by its index."""
    positions = [position for position, begin in one.begins if begin <= offset]
    return one.log[positions[-1] :]
