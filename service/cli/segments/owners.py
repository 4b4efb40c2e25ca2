"""Finds the owners of producer ids, and why their transactions ended, in segments of the transaction log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from service.cli.segments.files import records_of
from service.domain.partitions.batch_offsets import ABORT, COMMIT
from service.domain.partitions.endings import Decision
from service.domain.transaction_log import journal
from service.domain.transaction_log.causes import Cause
from service.domain.transaction_log.facts import NO_RECORD, LogRecord
from service.domain.transaction_log.states import EXPIRED, PREPARE_ABORT, PREPARE_COMMIT, UNKNOWN
from service.wire.batches import read_batches
from service.wire.errors import DecodeError
from service.wire.records import Record
from service.wire.transaction_log import decode_key, decode_value

_PREPARED: Final = {PREPARE_ABORT: ABORT, PREPARE_COMMIT: COMMIT}


class Owners(NamedTuple):
    """The owners of producer ids. `names`: the transactional.id that has or had the producer id. `decisions`: those
    about its transactions.
    """

    names: dict[int, bytes]
    decisions: dict[int, list[Decision]]


def owners_of(logs: Iterable[bytes]) -> Owners:
    """Returns the owners in segments that come in the order of their offsets. Batches and keys that cannot be decoded
    are skipped; a value that cannot be decoded counts as the state UNKNOWN.
    """
    found = Owners({}, defaultdict(list))
    for transactional_id, (records, known_to_ms) in _by_id(logs).items():
        for record in records:
            if record.producer_id >= 0:
                found.names[record.producer_id] = transactional_id
        for producer_id, decision in _decisions(records, known_to_ms):
            found.decisions[producer_id].append(decision)
    return found


class _History(NamedTuple):
    """The records of an id. `known_to_ms`: time of the newest record in the segment that has the id's last one."""

    records: list[LogRecord]
    known_to_ms: int


def _decisions(records: list[LogRecord], known_to_ms: int) -> Iterator[tuple[int, Decision]]:
    """Yields (producer id, decision) for each PrepareX. The journal judges the records pair by pair; a later record may
    refine a cause, and so does a log that goes on without one.
    """
    causes: dict[int, Cause] = {}
    last_abort = journal.NO_ABORT
    for before, after in pairwise([NO_RECORD, *records]):
        judged = journal.judge(last_abort, before, after, counts=True)
        last_abort = judged.last_abort
        if judged.transition.cause is not None and judged.transition.confidence is not None:
            causes[after.offset] = Cause(judged.transition.cause, judged.transition.confidence)
        if judged.revised is not None:
            offset, cause = judged.revised
            causes[offset] = cause
    settles_at_ms = last_abort.settles_at_ms
    if last_abort.offset in causes and settles_at_ms is not None and settles_at_ms <= known_to_ms:
        causes[last_abort.offset] = journal.settle(last_abort).cause
    for record, following in zip(records, [*records[1:], None], strict=True):
        if record.state in _PREPARED and record.offset in causes:
            until_ms = None if following is None else max(following.timestamp_ms, record.timestamp_ms)
            marker = _PREPARED[record.state]
            yield record.producer_id, Decision(marker, record.timestamp_ms, until_ms, causes[record.offset])


def _by_id(logs: Iterable[bytes]) -> dict[bytes, _History]:
    by_id: dict[bytes, list[LogRecord]] = defaultdict(list)
    known_to_ms: dict[bytes, int] = {}
    for data in logs:
        newest_ms, here = 0, set[bytes]()
        for batch in read_batches(data):
            for record in records_of(batch):
                newest_ms = max(newest_ms, record.timestamp_ms)
                try:
                    transactional_id = decode_key(record.key)
                except DecodeError:
                    continue
                by_id[transactional_id].append(_log_record(record))
                here.add(transactional_id)
        known_to_ms.update(dict.fromkeys(here, newest_ms))
    return {one: _History(records, known_to_ms[one]) for one, records in by_id.items()}


def _log_record(record: Record) -> LogRecord:
    gone = NO_RECORD._replace(offset=record.offset, timestamp_ms=record.timestamp_ms)
    if record.value is None:
        return gone._replace(state=EXPIRED)
    try:
        value = decode_value(record.value)
    except DecodeError:
        return gone._replace(state=UNKNOWN)
    return LogRecord(
        record.offset,
        record.timestamp_ms,
        -1,
        value.status,
        value.producer_id,
        value.producer_epoch,
        value.timeout_ms,
        value.last_update_ms,
        value.start_ms,
        value.client_transaction_version,
        value.previous_producer_id,
        value.partition_count,
    )
