"""Facts to rows on the executors, and back to facts on the driver.

A row is a whole Arrow array in one binary value. Spark would take the arrays themselves, one fact a row, and turn each
of their 35 fields into the JVM's form and back: that costs four times what decoding and folding cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from service.domain.facts import Gap, LogBatch, LogRecord, Participants, RangeRead, Reject, Run
from spark_jobs.fold import Records, Runs
from spark_jobs.schemas import PARTICIPANTS, READ, RECORD, REJECT, RUN

SCHEMA = StructType([StructField("kind", StringType(), False), StructField("arrow", BinaryType(), False)])
_ARROW = pa.schema([pa.field("kind", pa.string(), nullable=False), pa.field("arrow", pa.binary(), nullable=False)])
_AT_ONCE = 10_000
"""Facts in one row, at most: some 2 MB, of which compression leaves a fifth."""
RUNS_AT_ONCE = 100_000
"""Runs the driver holds as objects, about: some 120 MB."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def runs_to_rows(runs: Runs) -> pa.RecordBatch:
    children = [
        pa.array(runs.partition, pa.int32()),
        runs.transactional_id.cast(pa.binary()),
        _records(runs.first),
        _records(runs.last),
        pa.array(runs.joined),
        pa.array(runs.records),
        pa.array(runs.commits),
        pa.array(runs.aborts),
        _participants(runs.participants),
    ]
    return _rows("run", pa.StructArray.from_arrays(children, fields=list(RUN)))


def reads_to_rows(reads: Iterable[RangeRead]) -> pa.RecordBatch:
    return _rows("read", pa.array([r._asdict() | {"gap": r.gap and r.gap._asdict()} for r in reads], READ))


def rejects_to_rows(rejects: Iterable[Reject]) -> pa.RecordBatch:
    return _rows("reject", pa.array([r._asdict() for r in rejects], REJECT))


def trouble_to_rows(trouble: str) -> pa.RecordBatch:
    return _rows("trouble", pa.array([trouble], pa.string()))


def facts_from_rows(table: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """(kind, facts of it) in the order of the rows."""
    for kind, arrow in zip(table["kind"].to_pylist(), table["arrow"].to_pylist(), strict=True):
        with pa.ipc.open_stream(arrow) as stream:
            for batch in stream:
                yield kind, batch.column(0)


def batches_from_rows(table: pa.Table, runs_at_once: int = RUNS_AT_ONCE) -> Iterator[LogBatch]:
    """All rows of one micro-batch as facts, cut into batches that fit into memory as objects.

    A cut is made behind reads: what was read of a range comes before the read that names the range.
    """
    ranges: list[RangeRead] = []
    runs: list[Run] = []
    rejects: list[Reject] = []
    troubles: list[str] = []
    cut = False
    for kind, facts in facts_from_rows(table):
        if kind == "run":
            runs += _runs(facts)
        elif kind == "reject":
            rejects += _facts(facts, Reject)
        elif kind == "trouble":
            troubles += facts.to_pylist()
        else:
            ranges += _facts(facts, RangeRead, gap=lambda g: g and Gap(**g))
            if len(runs) >= runs_at_once:
                yield LogBatch(tuple(ranges), tuple(runs), tuple(rejects), _told(troubles))
                ranges, runs, rejects, cut = [], [], [], True
    if ranges or not cut:
        yield LogBatch(tuple(ranges), tuple(runs), tuple(rejects), _told(troubles))


def _told(troubles: Iterable[str]) -> str | None:
    return "; ".join(dict.fromkeys(troubles)) or None


def _rows(kind: str, facts: pa.Array) -> pa.RecordBatch:
    arrows = []
    for start in range(0, len(facts), _AT_ONCE):
        sink = pa.BufferOutputStream()
        some = pa.RecordBatch.from_arrays([facts.slice(start, _AT_ONCE)], names=[kind])
        with pa.ipc.new_stream(sink, some.schema, options=_COMPRESSED) as stream:
            stream.write_batch(some)
        arrows.append(sink.getvalue().to_pybytes())
    return pa.RecordBatch.from_arrays([pa.array([kind] * len(arrows)), pa.array(arrows, pa.binary())], schema=_ARROW)


def _records(records: Records) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [
            pa.array(column.astype(field.type.to_pandas_dtype(), copy=False))
            for column, field in zip(records, RECORD, strict=True)
        ],
        fields=list(RECORD),
    )


def _participants(participants: np.ndarray[Any, Any]) -> pa.Array:
    if not any(len(p) for p in participants):
        return pa.array([[]] * len(participants), PARTICIPANTS)
    return pa.array([[{"topic": t, "partitions": ps} for t, ps in p] for p in participants], PARTICIPANTS)


def _columns(structs: pa.StructArray) -> list[list[Any]]:
    return [structs.field(i).to_pylist() for i in range(structs.type.num_fields)]


def _facts(structs: pa.StructArray, fact: Any, **convert: Any) -> list[Any]:
    columns = _columns(structs)
    for name, to_value in convert.items():
        at = fact._fields.index(name)
        columns[at] = [to_value(v) for v in columns[at]]
    return [fact(*values) for values in zip(*columns, strict=True)]


def _runs(structs: pa.StructArray) -> Sequence[Run]:
    if not len(structs):
        return ()
    by_name = {name: structs.field(i) for i, name in enumerate(Run._fields)}
    columns = {name: column.to_pylist() for name, column in by_name.items() if name not in ("first", "last")}
    columns["first"] = _facts(by_name["first"], LogRecord)
    columns["last"] = _facts(by_name["last"], LogRecord)
    columns["participants"] = [
        tuple(Participants(p["topic"], tuple(p["partitions"])) for p in of) for of in columns["participants"]
    ]
    return [Run(*values) for values in zip(*(columns[name] for name in Run._fields), strict=True)]
