"""Takes the decisions of coordinators, with their partitions, out of decoded records of the transaction log; turns them
into rows and back. Only where markers are compared with decisions: other records need no partitions decoded."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Decided, Participants
from service.wire.columns import LogColumns
from service.wire.transaction_log import decode_value
from service.wire.vectors import byte_strings

_LONG, _INT = pa.int64(), pa.int32()

_TYPES = {
    "partition": _INT,
    "offset": _LONG,
    "transactional_id": pa.binary(),
    "state": _INT,
    "producer_id": _LONG,
    "producer_epoch": _INT,
    "start_ms": _LONG,
    "at_ms": _LONG,
    "value": pa.binary(),
}
_DECIDED = pa.struct([pa.field(name, kind) for name, kind in _TYPES.items()])


def decisions(columns: LogColumns, partitions: Collection[int]) -> pa.StructArray:
    """Returns the PrepareX records with partitions, of these log partitions."""
    is_end = np.isin(columns.status, [states.PREPARE_COMMIT, states.PREPARE_ABORT]) & (columns.partition_count > 0)
    rows = np.flatnonzero(is_end & np.isin(columns.partition, list(partitions)))
    values = byte_strings(columns.values.data, columns.values.start[rows], columns.values.size[rows])
    found = (
        columns.partition[rows],
        columns.offset[rows],
        columns.transactional_ids.take(pa.array(rows)),
        columns.status[rows],
        columns.producer_id[rows],
        columns.producer_epoch[rows],
        columns.start_ms[rows],
        columns.timestamp_ms[rows],
        values,
    )
    arrays = [
        (one if isinstance(one, pa.Array) else pa.array(one)).cast(kind)
        for one, kind in zip(found, _TYPES.values(), strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(_DECIDED))


def decisions_from_rows(structs: pa.StructArray) -> list[Decided]:
    columns = (field.to_pylist() for field in structs.flatten())
    return [Decided._make((*fields, _participants(value))) for *fields, value in zip(*columns, strict=True)]


def _participants(value: bytes) -> tuple[Participants, ...]:
    return tuple(Participants(topic, partitions) for topic, partitions in decode_value(value).partitions or ())
