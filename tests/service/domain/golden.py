"""Reads the transaction logs of real brokers from the golden segments."""

from __future__ import annotations

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_RECORD, LogRecord
from service.wire.batches import Batch, read_batches
from service.wire.errors import DecodeError
from service.wire.records import Record, read_records
from service.wire.transaction_log import decode_key, decode_value
from tests.helpers.paths import GOLDEN


def logs(version: str) -> dict[str, list[LogRecord]]:
    """Returns the records of each id in the golden segments of the Kafka version `version`.

    Control records are left out, and so are records with an undecodable key (they were planted, with a key of a future
    version). A record with an undecodable value has the state UNKNOWN.
    """
    found: dict[str, list[LogRecord]] = {}
    for segment in sorted((GOLDEN / version).glob("*/__transaction_state-*/*.log")):
        for batch in read_batches(segment.read_bytes()):
            assert isinstance(batch, Batch)
            for record in [] if batch.header.is_control else read_records(batch):
                try:
                    name = decode_key(record.key).decode()
                except DecodeError:
                    continue
                found.setdefault(name, []).append(_of(record))
    return found


def _of(record: Record) -> LogRecord:
    here = NO_RECORD._replace(offset=record.offset, timestamp_ms=record.timestamp_ms, state=states.EXPIRED)
    if record.value is None:
        return here
    try:
        value = decode_value(record.value)
    except DecodeError:
        return here._replace(state=states.UNKNOWN)
    return here._replace(
        state=value.status,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        last_update_ms=value.last_update_ms,
        start_ms=value.start_ms,
        client_transaction_version=value.client_transaction_version,
        previous_producer_id=value.previous_producer_id,
        partition_count=value.partition_count,
    )
