"""Rows of the source back to facts, on the driver (`spark_jobs.rows` made them)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from service.domain.transaction_log.facts import (
    Durations,
    Gap,
    LogBatch,
    LogRecord,
    Minute,
    Participants,
    RangeRead,
    Reject,
    Run,
    Step,
)
from service.wire.transaction_log import decode_value
from spark_jobs.fold.transaction_log import Runs

RUNS_AT_ONCE = 100_000
"""Runs the driver holds as objects, about: some 120 MB."""


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
    found: dict[str, list[Any]] = {kind: [] for kind in _FACTS}
    cut = False
    for kind, facts in facts_from_rows(table):
        found[kind] += _FACTS[kind](facts)
        if kind == "read" and len(found["run"]) >= runs_at_once:
            yield _batch(found)
            found, cut = {kind: [] for kind in _FACTS} | {"trouble": found["trouble"]}, True
    if found["read"] or not cut:
        yield _batch(found)


def _batch(found: dict[str, list[Any]]) -> LogBatch:
    return LogBatch(
        ranges=tuple(found["read"]),
        runs=tuple(found["run"]),
        rejects=tuple(found["reject"]),
        trouble="; ".join(dict.fromkeys(found["trouble"])) or None,
        steps=tuple(found["step"]),
        minutes=tuple(found["minute"]),
        durations=tuple(found["durations"]),
    )


def _columns(structs: pa.StructArray) -> list[list[Any]]:
    return [
        _records(field)
        if pa.types.is_struct(field.type) and len(field.type) == len(LogRecord._fields)
        else field.to_pylist()
        for field in structs.flatten()
    ]


def _records(structs: pa.StructArray) -> list[LogRecord]:
    return [LogRecord(*values) for values in zip(*_columns(structs), strict=True)]


def _plain(fact: Any) -> Callable[[pa.StructArray], list[Any]]:
    return lambda structs: [fact(*values) for values in zip(*_columns(structs), strict=True)]


def _reads(structs: pa.StructArray) -> list[RangeRead]:
    reads: list[RangeRead] = _plain(RangeRead)(structs)
    return [read._replace(gap=read.gap and Gap(**read.gap)) for read in reads]  # type: ignore[arg-type]


def _runs(structs: pa.StructArray) -> list[Run]:
    columns = dict(zip(Runs._fields, _columns(structs), strict=True))
    columns["participants"] = [() if value is None else _participants(value) for value in columns.pop("value")]
    return [Run(*values) for values in zip(*(columns[name] for name in Run._fields), strict=True)]


def _participants(value: bytes) -> tuple[Participants, ...]:
    return tuple(Participants(topic, partitions) for topic, partitions in decode_value(value).partitions or ())


_FACTS: dict[str, Callable[[pa.Array], list[Any]]] = {
    "read": _reads,
    "run": _runs,
    "step": _plain(Step),
    "minute": _plain(Minute),
    "durations": lambda structs: [d._replace(buckets=tuple(d.buckets)) for d in _plain(Durations)(structs)],
    "reject": _plain(Reject),
    "trouble": lambda texts: texts.to_pylist(),
}
