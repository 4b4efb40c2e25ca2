"""Facts to rows of the source, on the executors; `spark_jobs.fold.rows` reads them on the driver.

A row is a whole Arrow array in one binary value. Spark would take the arrays themselves, one fact a row, and turn each
of their fields into the JVM's form and back: that costs four times what decoding and folding cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from service.domain.transaction_log.facts import RangeRead, Reject
from spark_jobs.fold.transaction_log import Folded
from spark_jobs.schemas import DURATIONS, MINUTE, READ, REJECT, RUN, STEP

SCHEMA = StructType([StructField("kind", StringType(), False), StructField("arrow", BinaryType(), False)])
_ARROW = pa.schema([pa.field("kind", pa.string(), nullable=False), pa.field("arrow", pa.binary(), nullable=False)])
_AT_ONCE = 10_000
"""Facts in one row, at most: some 2 MB, of which compression leaves a fifth."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def folded_to_rows(folded: Folded) -> Iterator[pa.RecordBatch]:
    """All that was folded of some ranges."""
    yield rows_of("run", _structs(folded.runs, RUN))
    for told in folded.told:
        yield rows_of("step", _structs(told.steps, STEP))
        if told.minutes is not None:
            yield rows_of("minute", _structs(told.minutes, MINUTE))
        if told.durations:
            yield rows_of("durations", pa.array([d._asdict() for d in told.durations], DURATIONS))


def reads_to_rows(reads: Iterable[RangeRead]) -> pa.RecordBatch:
    return rows_of("read", pa.array([r._asdict() | {"gap": r.gap and r.gap._asdict()} for r in reads], READ))


def rejects_to_rows(rejects: Iterable[Reject]) -> pa.RecordBatch:
    return rows_of("reject", pa.array([r._asdict() for r in rejects], REJECT))


def trouble_to_rows(trouble: str) -> pa.RecordBatch:
    return rows_of("trouble", pa.array([trouble], pa.string()))


def rows_of(kind: str, facts: pa.Array) -> pa.RecordBatch:
    """An array of one kind of facts, in as few rows as fit."""
    arrows = []
    for start in range(0, len(facts), _AT_ONCE):
        sink = pa.BufferOutputStream()
        some = pa.RecordBatch.from_arrays([facts.slice(start, _AT_ONCE)], names=[kind])
        with pa.ipc.new_stream(sink, some.schema, options=_COMPRESSED) as stream:
            stream.write_batch(some)
        arrows.append(sink.getvalue().to_pybytes())
    return pa.RecordBatch.from_arrays([pa.array([kind] * len(arrows)), pa.array(arrows, pa.binary())], schema=_ARROW)


def _structs(columns: tuple[Any, ...], fields: pa.StructType) -> pa.StructArray:
    """An array of structs from its columns: numpy, Arrow, or again a tuple of columns."""
    return pa.StructArray.from_arrays(
        [_column(column, field.type) for column, field in zip(columns, fields, strict=True)], fields=list(fields)
    )


def _column(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, tuple):
        return _structs(column, kind)
    if isinstance(column, pa.Array):
        return column.cast(kind)
    return pa.array(column.astype(kind.to_pandas_dtype(), copy=False))
