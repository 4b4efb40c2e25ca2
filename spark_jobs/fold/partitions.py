"""Turns the sampler's observations and reads into rows of its source, and back (`service.domain.partitions.facts`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import pyarrow as pa

from service.domain.partitions.facts import (
    OBSERVED,
    FirstBatch,
    OpenEntry,
    PartitionObservation,
    PartitionsBatch,
    StalledRead,
)
from service.domain.reasons.coding import decode_if, encode_if
from spark_jobs.fold.rows import facts_from_rows, rows_of, struct_of

_LONG, _INT, _TEXT, _FLAG = pa.int64(), pa.int32(), pa.string(), pa.bool_()


_SUMMARY = pa.struct({"observed_at_ms": _LONG, "is_full": _FLAG, "not_covered": _LONG, "trouble": _TEXT})
_OBSERVATION_TYPES = (
    dict.fromkeys(OBSERVED, _LONG)
    | dict.fromkeys(("topic", "topic_id", "why", "samples"), _TEXT)
    | dict.fromkeys(("partition", "leader", "leader_epoch"), _INT)
    | {"is_gone": _FLAG}
)
_OBSERVATION = pa.struct([pa.field(name, _OBSERVATION_TYPES[name]) for name in OBSERVED])
_FIRST = struct_of(
    FirstBatch, dict.fromkeys(FirstBatch._fields, _LONG) | dict.fromkeys(("is_transactional", "is_control"), _FLAG)
)
_ENTRY = struct_of(OpenEntry, dict.fromkeys(OpenEntry._fields, _LONG))
_READ = struct_of(
    StalledRead,
    dict.fromkeys(StalledRead._fields, _LONG)
    | dict.fromkeys(("topic", "topic_id", "why"), _TEXT)
    | {"partition": _INT}
    | dict.fromkeys(("described", "is_whole"), _FLAG)
    | {"first": _FIRST, "entries": pa.list_(_ENTRY)},
)


def seen_to_rows(seen: PartitionsBatch) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a batch without its reads, which `reads_to_rows` converts."""
    plain = {field.name: getattr(seen, field.name) for field in _SUMMARY}
    yield rows_of("summary", pa.array([plain | {"trouble": encode_if(seen.trouble)}], _SUMMARY))
    if seen.observations:
        columns = {name: list(map(attrgetter(name), seen.observations)) for name in OBSERVED}
        columns["why"] = [encode_if(why) for why in columns["why"]]
        arrays = [pa.array(columns[field.name], field.type) for field in _OBSERVATION]
        yield rows_of("observation", pa.StructArray.from_arrays(arrays, fields=list(_OBSERVATION)))


def reads_to_rows(reads: Iterable[StalledRead]) -> pa.RecordBatch:
    return rows_of("read", pa.array([_plain(read) for read in reads], _READ))


def batches_from_rows(table: pa.Table) -> Iterator[PartitionsBatch]:
    """Yields a single batch, of all rows of a micro-batch."""
    observations: list[PartitionObservation] = []
    reads: list[StalledRead] = []
    batch = PartitionsBatch(0)
    for kind, facts in facts_from_rows(table):
        if kind == "summary":
            plain = facts[0].as_py()
            batch = PartitionsBatch(**plain | {"trouble": decode_if(plain["trouble"])})
        elif kind == "observation":
            columns = dict(zip(OBSERVED, (field.to_pylist() for field in facts.flatten()), strict=True))
            columns["why"] = [decode_if(why) for why in columns["why"]]
            observations += map(PartitionObservation, *columns.values())
        else:
            reads += map(_read, facts.to_pylist())
    yield batch._replace(observations=tuple(observations), reads=tuple(reads))


def _plain(read: StalledRead) -> dict[str, Any]:
    return read._asdict() | {
        "first": read.first and read.first._asdict(),
        "why": encode_if(read.why),
        "entries": [entry._asdict() for entry in read.entries],
    }


def _read(plain: dict[str, Any]) -> StalledRead:
    first, entries, why = plain.pop("first"), plain.pop("entries"), plain.pop("why")
    return StalledRead(
        **plain,
        first=first and FirstBatch(**first),
        why=decode_if(why),
        entries=tuple(OpenEntry(**entry) for entry in entries),
    )
