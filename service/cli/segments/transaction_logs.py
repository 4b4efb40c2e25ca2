"""Judges segments of the transaction log: finds the causes of records, the owners of producer ids, and the decisions
about transactions. Also finds the files that a command line names, one by one or by their directory.
"""

from __future__ import annotations

import mmap
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, cast

from service.cli.errors import CommandFailed
from service.domain.partitions.facts import MarkerType, TopicPartition
from service.domain.partitions.marker_causes import Decision
from service.domain.partitions.own_transactions import LoggedTransaction
from service.domain.transaction_log import journal
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.transaction_log.facts import NO_ID, NO_RECORD, VALUE_FROM, LogRecord
from service.domain.transaction_log.journal import NO_ABORT, LastAbort
from service.domain.transaction_log.states import (
    COMPLETE,
    COMPLETE_COMMIT,
    EXPIRED,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
    UNKNOWN,
)
from service.domain.transaction_log.transitions import SLOW_MARKERS_MS, is_same_transaction
from service.domain.worlds.transactions import TV2
from service.wire.batches import Batch, read_batches
from service.wire.errors import DecodeError
from service.wire.records import Record, read_records
from service.wire.transaction_log import TransactionValue, decode_key, decode_value

_LOG_DIRECTORY: Final = re.compile(r"__transaction_state-\d+")
_LOOKED_AT: Final = 20
"""Number of first batches that decide whether a file in an unknown directory is a segment of the transaction log."""


class Segment(NamedTuple):
    """A segment file. `first`: its first offset; None if it has no batch. `is_log`: True for a segment of the
    transaction log. The segments in one directory belong to one partition."""

    path: Path
    data: bytes
    first: int | None
    is_log: bool


def open_segments(names: Iterable[str], kind: str | None = None) -> Iterator[Segment]:
    """Opens the named files; for a named directory, opens its .log files. `kind`: "log" (the transaction log) or
    "data"; if None, the kind of each file is detected. Raises CommandFailed if a file cannot be read, or a directory
    has no .log file."""
    for path in (path for name in names for path in _files(Path(name))):
        data = _map(path)
        batch = next(read_batches(data), None)
        is_log = kind == "log" if kind else _is_transaction_log(path, data)
        yield Segment(path, data, None if batch is None else batch.base_offset, is_log)


def _files(path: Path) -> list[Path]:
    """Returns `path`; if `path` is a directory, returns its .log files in the order of their offsets. Raises
    CommandFailed if the directory has no .log file or cannot be read."""
    try:
        if not path.is_dir():
            return [path]
        found = sorted(path.glob("*.log"))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from None
    if not found:
        raise CommandFailed(f"{path}: no .log file in this directory")
    return found


def _map(path: Path) -> bytes:
    """Maps the file into memory instead of reading it: a segment may hold a gigabyte by default. Slices of a map are
    bytes, which is all that decoders need.

    Raises CommandFailed if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return cast(bytes, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if file.seek(0, 2) else b""
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from None


def _is_transaction_log(path: Path, data: bytes) -> bool:
    """Returns True if the file is a segment of the transaction log: its directory has the name of a partition of that
    log, or one of its first records decodes as a record of that log."""
    if _LOG_DIRECTORY.fullmatch(path.absolute().parent.name):
        return True
    return any(
        _is_transition(record) for batch in islice(read_batches(data), _LOOKED_AT) for record in _records_of(batch)
    )


def _records_of(batch: object) -> list[Record]:
    """Returns the records of a batch. Returns an empty list for a control batch or an unreadable batch."""
    if not isinstance(batch, Batch) or batch.header.is_control:
        return []
    try:
        return read_records(batch)
    except DecodeError:
        return []


def _is_transition(record: Record) -> bool:
    if record.value is None:
        return False
    try:
        decode_key(record.key)
        decode_value(record.value)
    except DecodeError:
        return False
    return True


class JudgedLogs:
    """The facts that segments of the transaction log show. Other segments among `segments` are skipped.

    Batches and keys that cannot be decoded are skipped; a value that cannot be decoded counts as the state UNKNOWN.
    `place`: the partition whose records are explained; None if it is not known.
    """

    def __init__(self, segments: Iterable[Segment], place: TopicPartition | None = None) -> None:
        self.names: dict[int, bytes] = {}
        self._causes: dict[Path, dict[int, Cause]] = {}
        endings: dict[int, list[_Ending]] = defaultdict(list)
        ids: dict[tuple[Path, bytes], _Id] = {}
        newest_ms: dict[Path, int] = defaultdict(int)
        logs = (segment for segment in segments if segment.is_log)
        for segment in sorted(logs, key=lambda segment: -1 if segment.first is None else segment.first):
            log = _log_of(segment.path)
            causes = self._causes.setdefault(log, {})
            for transactional_id, record, value in _records(segment.data):
                newest_ms[log] = max(newest_ms[log], record.timestamp_ms)
                one = ids.setdefault((log, transactional_id), _Id(causes))
                if record.offset <= one.newest.offset:
                    continue  # the record is in two files
                if record.producer_id >= 0:
                    self.names[record.producer_id] = transactional_id
                if ending := one.add(record, _lists(value, place)):
                    endings[ending.producer_id].append(ending)
        for (log, _), one in ids.items():
            one.settle(newest_ms[log])
            if one.newest.state == ONGOING:
                open_ = LoggedTransaction(None, one.newest.producer_epoch, one.data_epoch, -1, None, one.lists)
                endings[one.newest.producer_id].append(_Ending(open_, one.newest))
        self._decisions = {producer_id: _decisions(some) for producer_id, some in endings.items()}
        self._transactions = {producer_id: _transactions(some) for producer_id, some in endings.items()}

    def causes(self, path: Path) -> Mapping[int, Cause]:
        """Returns a mapping from offset to cause, for the log partition to which the file belongs."""
        return self._causes.get(_log_of(path), {})

    def decisions(self, producer_id: int) -> Sequence[Decision]:
        """Returns the decisions about all transactions of the producer id, also of those that do not list `place`."""
        return self._decisions.get(producer_id, ())

    def transactions(self, producer_id: int) -> Sequence[LoggedTransaction]:
        """Returns the transactions of the producer id that may have taken part in the partition, in the order of the
        log."""
        return self._transactions.get(producer_id, ())


@dataclass(slots=True)
class _Ending:
    """A transaction, and the `record` that shows it: its PrepareX; its CompleteX if the PrepareX is gone; its Ongoing
    record if it is open. `causes`: a mapping from offset to cause, for all records of the log partition; not
    final until everything is read. `is_superseded`: True if a later record decided the transaction again."""

    logged: LoggedTransaction
    record: LogRecord
    causes: Mapping[int, Cause] = field(default_factory=dict)
    is_superseded: bool = False

    @property
    def producer_id(self) -> int:
        rotated = self.record.state in COMPLETE and self.record.previous_producer_id != NO_ID
        return self.record.previous_producer_id if rotated else self.record.producer_id

    @property
    def from_ms(self) -> int:
        """Earliest time at which the transaction's markers can have been written."""
        at_ms = self.record.timestamp_ms
        return at_ms if self.record.state in PREPARED else at_ms - SLOW_MARKERS_MS

    @property
    def marker_epoch(self) -> int | None:
        """The epoch of the transaction's markers. None if the PrepareX is gone: the epoch of the CompleteX may be
        another one, because the producer id may have changed."""
        return self.record.producer_epoch if self.record.state in PREPARED else None

    @property
    def cause(self) -> Cause | None:
        if self.record.state == COMPLETE_COMMIT:
            return Cause(CauseCode.COMMIT, Confidence.LIKELY)  # LIKELY: a CompleteCommit does not show the protocol
        return self.causes.get(self.record.offset)


@dataclass(slots=True)
class _Id:
    """An id while its records are read. `newest`: its newest record. `lists`: whether that record lists the partition
    whose records are explained; None if not known. `data_epoch`: epoch with which the open transaction writes its
    records; None if not known."""

    causes: dict[int, Cause]
    newest: LogRecord = NO_RECORD
    lists: bool | None = None
    data_epoch: int | None = None
    _last_abort: LastAbort = NO_ABORT
    _ending: _Ending | None = None

    def add(self, record: LogRecord, lists: bool | None) -> _Ending | None:
        """Adds the next record of the id. The record may refine the cause of an earlier abort. Returns the transaction
        that the record decides (PrepareX), or completes (CompleteX) if no PrepareX of the transaction was read. Returns
        None for all other records, and for a PrepareX that is written again."""
        before, self.newest, self.lists = self.newest, record, lists
        judged = journal.judge(self._last_abort, before, record, counts=True)
        self._last_abort, step = judged.last_abort, judged.transition
        if judged.revised is not None:
            offset, cause = judged.revised
            self.causes[offset] = cause
        if step.cause is not None and step.confidence is not None:
            self.causes[record.offset] = Cause(step.cause, step.confidence)
        if record.state in PREPARED and step.cause is None:
            return None  # the same PrepareX, written again
        earlier, self._ending = self._ending, None
        if earlier is not None:
            until_ms = max(record.timestamp_ms, earlier.record.timestamp_ms)
            earlier.logged = earlier.logged._replace(until_ms=until_ms)
        is_same = bool(is_same_transaction(before, record))
        if record.state in PREPARED:
            self._ending = self._decided(before, record, earlier if is_same else None)
            return self._ending
        self.data_epoch = record.producer_epoch if record.state == ONGOING else None
        if record.state in COMPLETE and not (is_same and before.state in (*PREPARED, record.state)):
            at_ms = record.timestamp_ms
            return _Ending(LoggedTransaction(_outcome(record), record.producer_epoch, None, at_ms, at_ms, None), record)
        return None

    def settle(self, now_ms: int) -> None:
        """Makes the cause of the newest abort final, if the log was read far enough that no later record can change
        that cause."""
        settles_at_ms = self._last_abort.settles_at_ms
        if settles_at_ms is not None and settles_at_ms <= now_ms:
            self.causes[self._last_abort.offset] = journal.settle(self._last_abort).cause

    def _decided(self, before: LogRecord, record: LogRecord, earlier: _Ending | None) -> _Ending:
        decided_ms, lists = record.timestamp_ms, self.lists if record.partition_count else False
        if earlier is not None:  # decided again, under another epoch
            earlier.is_superseded, decided_ms = True, earlier.logged.decided_ms
            self.data_epoch = earlier.logged.data_epoch
        elif before.state != ONGOING or not is_same_transaction(before, record):
            self.data_epoch = None
        logged = LoggedTransaction(_outcome(record), record.producer_epoch, self.data_epoch, decided_ms, None, lists)
        is_raised = self.data_epoch is not None and self.data_epoch < record.producer_epoch
        by_tv2 = min(before.client_transaction_version, record.client_transaction_version) >= TV2
        return _Ending(logged._replace(has_own_epoch=is_raised and by_tv2), record, self.causes)


def _decisions(endings: Iterable[_Ending]) -> list[Decision]:
    return [
        Decision(ending.logged.marker, ending.from_ms, ending.logged.until_ms, cause, marker_epoch=ending.marker_epoch)
        for ending in endings
        if ending.logged.marker is not None and (cause := ending.cause) is not None
    ]


def _transactions(endings: Iterable[_Ending]) -> list[LoggedTransaction]:
    return [
        ending.logged._replace(cause=ending.cause)
        for ending in endings
        if ending.logged.lists_partition is not False and not ending.is_superseded
    ]


def _outcome(record: LogRecord) -> MarkerType:
    return MarkerType.COMMIT if record.state in (PREPARE_COMMIT, COMPLETE_COMMIT) else MarkerType.ABORT


def _lists(value: TransactionValue | None, place: TopicPartition | None) -> bool | None:
    if value is None or place is None:
        return None
    topic, partition = place
    return any(name == topic and partition in numbers for name, numbers in value.partitions or ())


def _log_of(path: Path) -> Path:
    return path.absolute().parent


def _records(data: bytes) -> Iterator[tuple[bytes, LogRecord, TransactionValue | None]]:
    for batch in read_batches(data):
        for record in _records_of(batch):
            try:
                transactional_id = decode_key(record.key)
            except DecodeError:
                continue
            yield transactional_id, *_decoded(record)


def _decoded(record: Record) -> tuple[LogRecord, TransactionValue | None]:
    gone = NO_RECORD._replace(offset=record.offset, timestamp_ms=record.timestamp_ms)
    if record.value is None:
        return gone._replace(state=EXPIRED), None
    try:
        value = decode_value(record.value)
    except DecodeError:
        return gone._replace(state=UNKNOWN), None
    fields = {name: getattr(value, name) for name in LogRecord._fields[VALUE_FROM:]}
    if value.previous_producer_id == value.producer_id:
        fields["previous_producer_id"] = NO_ID
    return gone._replace(state=value.status, **fields), value
