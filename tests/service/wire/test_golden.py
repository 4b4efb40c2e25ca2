"""Tests that every golden segment of both broker versions reads as Kafka's own tool printed it, record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.wire.batches import Batch, read_batches
from service.wire.columns import decode
from service.wire.log_columns import TOMBSTONE, UNDECODABLE, VALUE, Chunk, LogColumns
from service.wire.records import ABORT, read_control, read_records
from tests.helpers.builders.batches import DELETE_HORIZON
from tests.service.wire.comparing import assert_same_as_scalar
from tests.service.wire.dumps import Dump, DumpedRecord, name_of, read_dump, segments

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LOGS = [pytest.param(log, id=name_of(log)) for log in segments()]
TRANSACTION_LOGS = [pytest.param(log, id=name_of(log)) for log in segments("*/__transaction_state-*")]
DATA_LOGS = [pytest.param(log, id=name_of(log)) for log in segments("*/[a-z]*")]


def batches_of(log: Path) -> list[Batch]:
    found = list(read_batches(log.read_bytes()))
    batches = [batch for batch in found if isinstance(batch, Batch)]
    assert len(batches) == len(found)
    assert sum(batch.size for batch in batches) == log.stat().st_size
    return batches


def dump_of(log: Path, batches: list[Batch]) -> Dump:
    """Returns the dump of a segment, which must contain every batch unless the tool stopped early."""
    dump = read_dump(log)
    assert 0 < len(dump.batches) <= len(batches)
    if dump.complete:
        assert len(dump.batches) == len(batches)
    return dump


@pytest.mark.parametrize("log", LOGS)
def test_headers_equal_the_dump_of_kafkas_tool(log: Path) -> None:
    batches = batches_of(log)
    for batch, (words, _) in zip(batches, dump_of(log, batches).batches, strict=False):
        header = batch.header
        horizon = header.base_timestamp_ms if header.attributes & DELETE_HORIZON else None
        assert words == words | {
            "baseOffset": str(header.base_offset),
            "lastOffset": str(header.last_offset),
            "count": str(header.records_count),
            "baseSequence": str(header.base_sequence),
            "lastSequence": str(header.last_sequence),
            "producerId": str(header.producer_id),
            "producerEpoch": str(header.producer_epoch),
            "partitionLeaderEpoch": str(header.leader_epoch),
            "isTransactional": str(header.is_transactional).lower(),
            "isControl": str(header.is_control).lower(),
            "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
            "position": str(batch.position),
            "LogAppendTime" if header.is_log_append_time else "CreateTime": str(header.max_timestamp_ms),
            "size": str(batch.size),
            "magic": str(header.magic),
            "compresscodec": CODECS[header.codec],
            "crc": str(header.crc),
            "isvalid": "true",
        }


@pytest.mark.parametrize("log", LOGS)
def test_records_and_markers_equal_the_dump_of_kafkas_tool(log: Path) -> None:
    batches = batches_of(log)
    dump = dump_of(log, batches)
    for batch, (_, dumped) in zip(batches, dump.batches, strict=False):
        records = read_records(batch)
        if len(dumped) < len(records):
            assert not dump.complete
            break
        for record, line in zip(records, dumped, strict=True):
            sizes = [-1 if data is None else len(data) for data in (record.key, record.value)]
            assert (record.offset, record.timestamp_ms, *sizes) == line[:4]
        if batch.header.is_control:
            control = read_control(batch)
            assert control is not None
            assert ("ABORT" if control.type == ABORT else "COMMIT", control.coordinator_epoch) == dumped[0].marker


@pytest.mark.parametrize("log", DATA_LOGS)
def test_data_of_every_codec_and_client_equal_the_dump(log: Path) -> None:
    batches = batches_of(log)
    for batch, (_, dumped) in zip(batches, dump_of(log, batches).batches, strict=True):
        if batch.header.is_control:
            continue
        for record, line in zip(read_records(batch), dumped, strict=True):
            assert (record.key or b"").decode() == line.key
            assert (record.value or b"").decode() == line.payload


@pytest.mark.parametrize("log", TRANSACTION_LOGS)
def test_transaction_log_records_equal_the_dump(log: Path) -> None:
    """All fields of keys and values are compared. The dumps of the v0 segments of 3.9.2 were made with the tool of
    4.3.1, because the tool of 3.9.2 omits the start time."""
    data = log.read_bytes()
    columns = decode([Chunk(3, 0, 2**62, data)])
    assert_same_as_scalar([Chunk(3, 0, 2**62, data)])
    other = ".dump-4.3.1.txt"
    dump = read_dump(log, other if log.with_suffix(other).exists() else ".dump.txt")
    lines = {line.offset: line for batch in dump.batches for line in batch.records}
    unread = {reject.offset: reject for reject in columns.rejects}
    rows = {int(offset): row for row, offset in enumerate(columns.offset)}
    assert dump.complete
    assert rows.keys() | unread.keys() == lines.keys()
    for offset, line in lines.items():
        if offset not in rows:
            assert unread[offset].reason == "unknown_key_version"
        elif columns.kind[rows[offset]] == UNDECODABLE:
            assert unread[offset].reason == "unknown_value_version"
        else:
            check_row(columns, rows[offset], line)


def check_row(columns: LogColumns, row: int, line: DumpedRecord) -> None:
    transactional_id = columns.transactional_ids.get(row) or b""
    assert f'"transactionalId":"{transactional_id.decode()}"' in line.key
    assert columns.timestamp_ms[row] == line.timestamp_ms
    if line.value_size < 0:
        assert columns.kind[row] == TOMBSTONE
        return
    data = line.fields["data"]
    topics = data["transactionPartitions"] or []
    assert columns.kind[row] == VALUE
    assert columns.participants(row) == tuple((topic["topic"], tuple(topic["partitionIds"])) for topic in topics)
    for name, expected in {
        "producer_id": data["producerId"],
        "producer_epoch": data["producerEpoch"],
        "timeout_ms": data["transactionTimeoutMs"],
        "status": data["transactionStatus"],
        "last_update_ms": data["transactionLastUpdateTimestampMs"],
        "start_ms": data["transactionStartTimestampMs"],
        "client_transaction_version": data.get("clientTransactionVersion", 0),
        "previous_producer_id": data.get("previousProducerId", -1),
        "next_producer_id": data.get("nextProducerId", -1),
        "next_producer_epoch": data.get("nextProducerEpoch", -1),
        "partition_count": sum(len(topic["partitionIds"]) for topic in topics),
    }.items():
        assert getattr(columns, name)[row] == expected, name


def test_the_segments_contain_every_kind_of_row_and_reject() -> None:
    """Records with unknown versions of keys and values were planted in the logs of both versions of Kafka."""
    columns = decode(
        [Chunk(n, 0, 2**62, log.read_bytes()) for n, log in enumerate(segments("*/__transaction_state-*"))]
    )
    assert set(columns.kind) == {VALUE, TOMBSTONE, UNDECODABLE}
    assert [reject.reason for reject in columns.rejects] == ["unknown_value_version", "unknown_key_version"] * 2
    assert (columns.next_producer_id >= 0).any()
    assert not columns.broken
