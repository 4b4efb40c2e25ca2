"""Arrow types of the facts that executors hand to the driver: `transaction_log.facts`, under the same names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from service.domain.transaction_log.facts import Durations, Gap, LogRecord, Minute, RangeRead, Reject, Step
from spark_jobs.fold.transaction_log import Runs

_LONG, _INT, _TEXT, _BYTES, _FLAG = pa.int64(), pa.int32(), pa.string(), pa.binary(), pa.bool_()


def struct_of(fact: Any, types: dict[str, pa.DataType]) -> pa.StructType:
    """Of the fields of a NamedTuple, in their order."""
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
MINUTE = struct_of(Minute, dict.fromkeys(Minute._fields, _LONG) | {"partition": _INT, "transactional_id": _BYTES})
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
