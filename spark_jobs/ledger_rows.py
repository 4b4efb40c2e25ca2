"""What was read of tailed partitions as rows of its source, and back (`service.domain.partitions.ledger`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange, Volume
from service.domain.transaction_log.facts import Gap, RangeRead
from spark_jobs.fold.rows import facts_from_rows
from spark_jobs.rows import rows_of
from spark_jobs.schemas import READ, struct_of

_LONG, _INT, _TEXT, _FLAG = pa.int64(), pa.int32(), pa.string(), pa.bool_()
_PLACE = {"topic": _TEXT, "partition": _INT}

_RANGE = struct_of(TopicRange, {"topic": _TEXT, "read": READ})
_VOLUME = struct_of(Volume, dict.fromkeys(Volume._fields, _LONG) | _PLACE)
_MARKER = struct_of(Marker, dict.fromkeys(Marker._fields, _LONG) | _PLACE | {"is_commit": _FLAG})


def ranges_to_rows(ranges: Iterable[TopicRange]) -> pa.RecordBatch:
    plain = [
        {"topic": topic, "read": read._asdict() | {"gap": read.gap and read.gap._asdict()}} for topic, read in ranges
    ]
    return rows_of("range", pa.array(plain, _RANGE))


def volumes_to_rows(volumes: Sequence[Volume]) -> pa.RecordBatch:
    return rows_of("volume", _structs(volumes, _VOLUME))


def markers_to_rows(markers: Sequence[Marker]) -> pa.RecordBatch:
    return rows_of("marker", _structs(markers, _MARKER))


def batches_from_rows(table: pa.Table) -> Iterator[LedgerBatch]:
    """The one batch that all rows of a micro-batch are."""
    ranges: list[TopicRange] = []
    volumes: list[Volume] = []
    markers: list[Marker] = []
    troubles: list[str] = []
    for kind, facts in facts_from_rows(table):
        if kind == "range":
            ranges += [TopicRange(plain["topic"], _read(plain["read"])) for plain in facts.to_pylist()]
        elif kind == "volume":
            volumes += map(Volume._make, _columns(facts))
        elif kind == "marker":
            markers += map(Marker._make, _columns(facts))
        else:
            troubles += facts.to_pylist()
    trouble = "; ".join(dict.fromkeys(troubles)) or None
    yield LedgerBatch(tuple(ranges), tuple(volumes), tuple(markers), trouble)


def _structs(facts: Sequence[Any], fields: pa.StructType) -> pa.StructArray:
    columns = [pa.array([fact[i] for fact in facts], field.type) for i, field in enumerate(fields)]
    return pa.StructArray.from_arrays(columns, fields=list(fields))


def _columns(facts: pa.StructArray) -> Iterator[tuple[Any, ...]]:
    return zip(*(field.to_pylist() for field in facts.flatten()), strict=True)


def _read(plain: dict[str, Any]) -> RangeRead:
    read = RangeRead(**plain)
    return read._replace(gap=read.gap and Gap(**read.gap))  # type: ignore[arg-type]
