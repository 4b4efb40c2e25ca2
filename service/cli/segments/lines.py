"""The lines of `txnscope inspect`: one for each transition or batch; bytes that cannot be decoded get a line with the
reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from service.cli.segments.transaction_logs import JudgedLogs
from service.cli.text import time_of, topic_partitions
from service.domain.partitions.marker_causes import cause_of_marker
from service.domain.transaction_log.causes import Cause
from service.domain.transaction_log.states import NAMES
from service.partition_log import piece_of
from service.store.escaped_text import display_id
from service.wire.batches import LENGTH_END, Batch, BatchHeader, read_batches
from service.wire.errors import DecodeError
from service.wire.records import ABORT, COMMIT, Record, read_control, read_records
from service.wire.transaction_log import TransactionValue, decode_key, decode_value

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_MARKERS: Final = {ABORT: "ABORT", COMMIT: "COMMIT"}
_TAGS: Final = {
    "previous_producer_id": -1,
    "next_producer_id": -1,
    "client_transaction_version": 0,
    "next_producer_epoch": -1,
}
"""Fields of a record's value, each with the number that means "none". A field is shown only if it has another
number."""


def log_lines(data: bytes, causes: Mapping[int, Cause]) -> Iterator[str]:
    """Yields the lines of `__transaction_state`: offset, append time, state, id, then name=value. `causes`: a
    mapping from offset to the cause of the record."""
    for batch in _batches(data):
        if isinstance(batch, str):
            yield batch
        elif batch.header.is_control:
            yield _marker(batch)
        else:
            try:
                records = read_records(batch)
            except DecodeError as error:
                yield _undecodable(_span(batch.header), error)
                continue
            yield from (_transition(record) + _because(causes.get(record.offset)) for record in records)


def data_lines(data: bytes, logs: JudgedLogs) -> Iterator[str]:
    """Yields the lines of a topic other than the transaction log: offsets, the batch's newest time, its kind, then
    name=value. `logs`: the segments of the transaction log, which show the owners and causes of the markers."""
    for batch in _batches(data):
        if isinstance(batch, str):
            yield batch
        elif batch.header.is_control:
            yield _marker(batch) + _decided(batch, logs)
        else:
            yield _data(batch)


def _batches(data: bytes) -> Iterator[Batch | str]:
    """Yields each whole batch, and a line of text about bytes that are not a batch."""
    end = 0
    for batch in read_batches(data):
        if isinstance(batch, Batch):
            yield batch
        elif batch.size is None and not any(data[batch.position :]):
            yield f"the last {len(data) - batch.position} bytes are zeros: preallocated and not written yet"
            return
        else:
            yield _undecodable(f"{batch.base_offset} (at byte {batch.position})", batch.error)
            if batch.size is None:
                yield f"the last {len(data) - batch.position} bytes were not read: the next batch cannot be found"
                return
        end = batch.position + (batch.size or 0)
    if end < len(data):
        has_head = len(data) - end >= LENGTH_END
        offset = f" (offset {int.from_bytes(data[end : end + 8], 'big', signed=True)})" if has_head else ""
        yield f"the last {len(data) - end} bytes are no whole batch{offset}"


def _transition(record: Record) -> str:
    at = f"{record.offset} {time_of(record.timestamp_ms)}"
    try:
        transactional_id = decode_key(record.key)
    except DecodeError as error:
        return _undecodable(at, error)
    shown = display_id(transactional_id)
    if record.value is None:
        return f"{at} Expired {shown}"
    try:
        value = decode_value(record.value)
    except DecodeError as error:
        return f"{_undecodable(at, error)} transactional_id={shown}"
    return f"{at} {NAMES[value.status]} {shown} {_fields(value)}"


def _fields(value: TransactionValue) -> str:
    fields = {
        "producer_id": value.producer_id,
        "epoch": value.producer_epoch,
        "timeout_ms": value.timeout_ms,
        "started": "-" if value.start_ms == -1 else time_of(value.start_ms),
        "partitions": topic_partitions(value.partitions or ()),
    }
    tags = {name: getattr(value, name) for name, none in _TAGS.items() if getattr(value, name) != none}
    return " ".join(f"{name}={shown}" for name, shown in {**fields, **tags}.items())


def _data(batch: Batch) -> str:
    header = batch.header
    producer = ""
    if header.producer_id >= 0:
        producer = f" producer_id={header.producer_id} epoch={header.producer_epoch}"
        producer += f" sequence={header.base_sequence}..{header.last_sequence}"
    kind = "transactional" if header.is_transactional else "data"
    codec = _CODECS[header.codec] if header.codec < len(_CODECS) else header.codec
    return f"{_span(header)} {kind} records={header.records_count}{producer} codec={codec} bytes={batch.size}"


def _marker(batch: Batch) -> str:
    header = batch.header
    try:
        control = read_control(batch)
    except DecodeError as error:
        return _undecodable(_span(header), error)
    by = f"producer_id={header.producer_id} epoch={header.producer_epoch}"
    if control is None:
        return f"{_span(header)} control {by} (emptied by compaction)"
    at = f"{control.offset} {time_of(control.timestamp_ms)}"
    if control.type not in _MARKERS:
        return f"{at} control {by} (not about transactions)"
    return f"{at} {_MARKERS[control.type]} {by} coordinator_epoch={control.coordinator_epoch}"


def _decided(batch: Batch, logs: JudgedLogs) -> str:
    """Returns the transactional.id of a marker's producer and the cause of the marker, as text. Leaves out what is not
    known."""
    piece = piece_of(batch)
    name = logs.names.get(piece.producer_id)
    owner = "" if name is None else f" transactional_id={display_id(name)}"
    if piece.marker is None:
        return owner
    decisions = logs.decisions(piece.producer_id)
    ending = cause_of_marker(piece.marker, piece.producer_epoch, piece.timestamp_ms, decisions, None)
    return owner + _because(None if ending is None else ending.cause)


def _because(cause: Cause | None) -> str:
    return "" if cause is None else f" cause={cause.code} confidence={cause.confidence}"


def _span(header: BatchHeader) -> str:
    offsets = f"{header.base_offset}..{header.last_offset}" if header.last_offset_delta else f"{header.base_offset}"
    return f"{offsets} {time_of(header.max_timestamp_ms)}"


def _undecodable(at: str, error: DecodeError) -> str:
    return f"{at} UNDECODABLE {error.reason}: {error}"
