"""Facts to Arrow rows on the executors, and back to facts on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from service.domain.facts import Gap, LogBatch, LogRecord, Participants, RangeRead, Reject, Run
from spark_jobs.fold import Records, Runs
from spark_jobs.schemas import PARTICIPANTS, READ, RECORD, REJECT, RUN, rows


def runs_to_rows(runs: Runs) -> pa.RecordBatch:
    """One row a run."""
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
    return rows(run=pa.StructArray.from_arrays(children, fields=list(RUN)))


def reads_to_rows(reads: Iterable[RangeRead]) -> pa.RecordBatch:
    return rows(read=pa.array([r._asdict() | {"gap": r.gap and r.gap._asdict()} for r in reads], READ))


def rejects_to_rows(rejects: Iterable[Reject]) -> pa.RecordBatch:
    return rows(reject=pa.array([r._asdict() for r in rejects], REJECT))


def trouble_to_rows(trouble: str) -> pa.RecordBatch:
    return rows(trouble=pa.array([trouble], pa.string()))


def batch_from_rows(table: pa.Table) -> LogBatch:
    """All rows of one micro-batch as facts."""
    table = table.combine_chunks()
    troubles = _present(table, "trouble").to_pylist()
    return LogBatch(
        ranges=tuple(_facts(_present(table, "read"), RangeRead, gap=lambda g: g and Gap(**g))),
        runs=tuple(_runs(_present(table, "run"))),
        rejects=tuple(_facts(_present(table, "reject"), Reject)),
        trouble="; ".join(dict.fromkeys(troubles)) or None,
    )


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


def _present(table: pa.Table, column: str) -> pa.Array:
    values = table.column(column)
    chunk = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    return chunk.drop_null()


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
