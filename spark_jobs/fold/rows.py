"""Turns facts of the transaction log into Arrow rows on the executors, and back into facts on the driver.

A row is a whole Arrow array in one binary value. If each fact were a row, Spark would convert each field of the fact to
the JVM's form and back, which costs four times as much as decoding and folding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from service.domain.reasons.coding import decode, encode
from service.domain.reasons.reason import Reason, combined
from service.domain.transaction_log.facts import (
    Durations,
    Gap,
    LogBatch,
    LogRecord,
    LoneRuns,
    Minute,
    MinuteSums,
    RangeRead,
    Records,
    Reject,
    Run,
    Step,
)
from service.store.escaped_text import KEY_ID_BYTES
from spark_jobs.fold.transaction_log import Folded, Runs
from spark_jobs.fold.transitions import decisions_from_rows, participants_of

_LONG, _INT, _TEXT, _BYTES, _FLAG = pa.int64(), pa.int32(), pa.string(), pa.binary(), pa.bool_()


def struct_of(fact: Any, types: dict[str, pa.DataType]) -> pa.StructType:
    """Returns the Arrow struct of a NamedTuple's fields, in the order of the fields. `types`: a mapping from the name
    of each field to its Arrow type."""
    return pa.struct([pa.field(name, types[name]) for name in fact._fields])


RECORD = struct_of(
    LogRecord,
    dict.fromkeys(LogRecord._fields, _LONG)
    | dict.fromkeys(
        ("leader_epoch", "state", "producer_epoch", "timeout_ms", "client_transaction_version", "partition_count"), _INT
    ),
)
GAP = struct_of(Gap, {"from_offset": _LONG, "to_offset": _LONG, "reason": _TEXT, "missing": _LONG})
RUN = struct_of(
    Runs,
    {
        "partition": _INT,
        "transactional_id": _BYTES,
        "first": RECORD,
        "last": RECORD,
        "joined": _FLAG,
        "records": _LONG,
        "value": _BYTES,
        "ended_offset": _LONG,
        "ended_state": _INT,
        "ended_value": _BYTES,
    },
)
STEP = struct_of(Step, {"partition": _INT, "transactional_id": _BYTES, "before": RECORD, "after": RECORD})
SUMS = struct_of(MinuteSums, dict.fromkeys(MinuteSums._fields, _LONG))
MINUTE = struct_of(Minute, {"partition": _INT, "transactional_id": _BYTES, "minute_ms": _LONG, "sums": SUMS})
DURATIONS = struct_of(Durations, {"partition": _INT, "kind": _TEXT, "buckets": pa.list_(_LONG), "sum_ms": _LONG})
READ = struct_of(
    RangeRead,
    dict.fromkeys(RangeRead._fields, _LONG)
    | dict.fromkeys(("partition", "generation", "leader", "leader_epoch"), _INT)
    | {"topic_id": _TEXT, "gap": GAP, "counts": _FLAG},
)
REJECT = struct_of(
    Reject,
    {
        "partition": _INT,
        "generation": _INT,
        "offset": _LONG,
        "reason": _TEXT,
        "transactional_id": _BYTES,
        "key": _BYTES,
        "value": _BYTES,
    },
)


SCHEMA = StructType([StructField("kind", StringType(), False), StructField("arrow", BinaryType(), False)])
_ARROW = pa.schema([pa.field("kind", pa.string(), nullable=False), pa.field("arrow", pa.binary(), nullable=False)])
_AT_ONCE = 10_000
"""Maximum number of facts in one row. Such a row takes about 2 MB, which compression reduces to a fifth."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def folded_to_rows(folded: Folded) -> Iterator[pa.RecordBatch]:
    """Yields the rows of all facts that were folded from some ranges."""
    yield rows_of("run", _structs(folded.runs, RUN))
    for pair_facts in folded.pair_facts:
        yield rows_of("step", _structs(pair_facts.steps, STEP))
        if pair_facts.minutes is not None:
            yield rows_of("minute", _structs(pair_facts.minutes, MINUTE))
        if pair_facts.durations:
            yield rows_of("durations", pa.array([d._asdict() for d in pair_facts.durations], DURATIONS))


def reads_to_rows(reads: Iterable[RangeRead]) -> pa.RecordBatch:
    return rows_of("read", pa.array([r._asdict() | {"gap": r.gap and r.gap._asdict()} for r in reads], READ))


def rejects_to_rows(rejects: Iterable[Reject]) -> pa.RecordBatch:
    return rows_of("reject", pa.array([r._asdict() for r in rejects], REJECT))


def trouble_to_rows(trouble: Reason) -> pa.RecordBatch:
    return rows_of("trouble", pa.array([encode(trouble)], pa.string()))


def troubles_from_rows(facts: pa.Array) -> list[Reason]:
    return [decode(text) for text in facts.to_pylist()]


def rows_of(kind: str, facts: pa.Array) -> pa.RecordBatch:
    """Returns the rows that contain an array of facts of one kind, up to _AT_ONCE facts in each."""
    arrows = []
    for start in range(0, len(facts), _AT_ONCE):
        sink = pa.BufferOutputStream()
        some = pa.RecordBatch.from_arrays([facts.slice(start, _AT_ONCE)], names=[kind])
        with pa.ipc.new_stream(sink, some.schema, options=_COMPRESSED) as stream:
            stream.write_batch(some)
        arrows.append(sink.getvalue().to_pybytes())
    return pa.RecordBatch.from_arrays([pa.array([kind] * len(arrows)), pa.array(arrows, pa.binary())], schema=_ARROW)


def _structs(columns: tuple[Any, ...], fields: pa.StructType) -> pa.StructArray:
    """Returns an array of structs from its columns. A column is a numpy array, an Arrow array or, for a nested struct,
    a tuple of columns."""
    return pa.StructArray.from_arrays(
        [_column(column, field.type) for column, field in zip(columns, fields, strict=True)], fields=list(fields)
    )


def _column(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, tuple):
        return _structs(column, kind)
    if isinstance(column, pa.Array):
        return column.cast(kind)
    return pa.array(column.astype(kind.to_pandas_dtype(), copy=False))


RUNS_AT_ONCE = 100_000
"""Approximate number of runs that the driver holds as objects at once. These objects take about 120 MB."""


def facts_from_rows(table: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Yields the facts in the rows, in the order of the rows, as pairs: a kind, and an array of facts of this kind."""
    for kind, arrow in zip(table["kind"].to_pylist(), table["arrow"].to_pylist(), strict=True):
        with pa.ipc.open_stream(arrow) as stream:
            for batch in stream:
                yield kind, batch.column(0)


def batches_from_rows(table: pa.Table, runs_at_once: int = RUNS_AT_ONCE) -> Iterator[LogBatch]:
    """Yields all rows of one micro-batch as facts, cut into batches that fit into memory as objects.

    A cut is made only after a fact of the kind `read`. That fact names a range, and comes after all other facts from
    the range.
    """
    found: dict[str, list[Any]] = {kind: [] for kind in _FACTS}
    runs: list[pa.StructArray] = []
    cut = False
    for kind, facts in facts_from_rows(table):
        if kind == "run":
            runs.append(facts)
        else:
            found[kind] += _FACTS[kind](facts)
        if kind == "read" and sum(map(len, runs)) >= runs_at_once:
            yield _batch(found, runs)
            found, runs, cut = {kind: [] for kind in _FACTS} | {"trouble": found["trouble"]}, [], True
    if found["read"] or not cut:
        yield _batch(found, runs)


def _batch(found: Mapping[str, list[Any]], runs: Sequence[pa.StructArray]) -> LogBatch:
    history = [read.partition for read in found["read"] if not read.counts]
    all_runs = pa.concat_arrays(runs) if runs else pa.array([], RUN)
    is_lone = lone(all_runs, history, found["step"])
    return LogBatch(
        ranges=tuple(found["read"]),
        runs=tuple(_runs(all_runs.filter(pc.invert(is_lone)))),
        rejects=tuple(found["reject"]),
        trouble=combined(found["trouble"]),
        steps=tuple(found["step"]),
        minutes=tuple(found["minute"]),
        durations=tuple(found["durations"]),
        lone=lone_runs(all_runs.filter(is_lone)) if history else None,
        decided=tuple(found["decided"]),
    )


def lone(runs: pa.StructArray, history: Sequence[int], steps: Iterable[Step]) -> pa.BooleanArray:
    """Returns, for each run, whether it belongs in LoneRuns. Such a run is the only run of its id, is not `joined`, and
    lies in a log partition of `history`. Its id has no steps, and at most KEY_ID_BYTES bytes. `history`: the log
    partitions whose records do not count."""
    partition, ids, joined = (runs.field(name) for name in ("partition", "transactional_id", "joined"))
    if not history or not len(runs):
        return pa.array(np.zeros(len(runs), bool))
    coded = ids.dictionary_encode()
    with_steps = pa.array({step.transactional_id for step in steps}, ids.type)
    is_of_other = pc.or_(
        pc.is_in(coded.dictionary, value_set=with_steps), pc.greater(pc.binary_length(coded.dictionary), KEY_ID_BYTES)
    )
    number = np.asarray(coded.indices)
    is_alone = (np.bincount(number, minlength=len(coded.dictionary)) == 1) & ~np.asarray(is_of_other)
    is_history = pc.is_in(partition, value_set=pa.array(history, partition.type))
    return pa.array(is_alone[number] & np.asarray(is_history) & ~np.asarray(joined))


def lone_runs(runs: pa.StructArray) -> LoneRuns:
    """Returns the runs as columns, ordered by id."""
    runs = runs.take(pc.sort_indices(runs.field("transactional_id")))
    columns = dict(zip(Runs._fields, runs.flatten(), strict=True))
    values = columns["value"].to_pylist()
    return LoneRuns(
        partition=np.asarray(columns["partition"]),
        transactional_id=columns["transactional_id"].to_pylist(),
        first=Records(*map(np.asarray, columns["first"].flatten())),
        last=Records(*map(np.asarray, columns["last"].flatten())),
        records=np.asarray(columns["records"]),
        participants=[() if value is None else participants_of(value) for value in values],
        ended_offset=np.asarray(columns["ended_offset"]),
        ended_state=np.asarray(columns["ended_state"]),
        ended_value=columns["ended_value"].to_pylist(),
    )


def _columns(structs: pa.StructArray) -> list[list[Any]]:
    plain = (_HELD.get(field.type) for field in structs.type)
    return [
        field.to_pylist() if fact is None else _plain(fact)(field)
        for field, fact in zip(structs.flatten(), plain, strict=True)
    ]


_HELD = {RECORD: LogRecord, SUMS: MinuteSums}


def _plain(fact: Any) -> Callable[[pa.StructArray], list[Any]]:
    return lambda structs: list(map(fact._make, zip(*_columns(structs), strict=True)))


def _reads(structs: pa.StructArray) -> list[RangeRead]:
    reads: list[RangeRead] = _plain(RangeRead)(structs)
    return [read._replace(gap=read.gap and Gap(**read.gap)) for read in reads]  # type: ignore[arg-type]


def _runs(structs: pa.StructArray) -> list[Run]:
    columns = dict(zip(Runs._fields, _columns(structs), strict=True))
    columns["participants"] = [() if value is None else participants_of(value) for value in columns.pop("value")]
    return list(map(Run._make, zip(*(columns[name] for name in Run._fields), strict=True)))


_FACTS: dict[str, Callable[[pa.Array], list[Any]]] = {
    "read": _reads,
    "step": _plain(Step),
    "minute": _plain(Minute),
    "durations": lambda structs: [d._replace(buckets=tuple(d.buckets)) for d in _plain(Durations)(structs)],
    "reject": _plain(Reject),
    "trouble": troubles_from_rows,
    "decided": decisions_from_rows,
}
