"""Reads the ranges of one task to their ends, in an executor: fetch, decode, fold.

The reader waits for the end of a short failure, such as a leader that moves or a broker that restarts. If a failure
lasts, the reader raises it, and the batch is planned again from the store's positions.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import READ, ErrorAnswer, ErrorText, NoPermission, PartitionsUnreadable
from service.domain.transaction_log.facts import Gap, RangeRead, Reject
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import topic_layout
from service.kafka.errors import KafkaUnavailable
from service.kafka.fetch import Fetched, PartitionFetch, fetch_many
from service.kafka.offsets import EARLIEST, list_offsets
from service.kafka.settings import ClientSettings
from service.wire.columns import decode
from service.wire.log_columns import UNDECODABLE, BrokenBatch, Chunk, LogColumns, holes
from service.wire.scalar import misread
from spark_jobs.fold.rows import folded_to_rows, reads_to_rows, rejects_to_rows, rows_of
from spark_jobs.fold.transaction_log import Folded, concat, fold, merge
from spark_jobs.fold.transitions import Scope, decisions
from spark_jobs.source.admission import split_by_size

clients: dict[ClientSettings, KafkaClient] = {}


def shared_client(settings: ClientSettings) -> KafkaClient:
    """Returns this process's client for the cluster, made on first use. Raises KafkaUnavailable or KafkaRefused."""
    if settings not in clients:
        clients[settings] = KafkaClient(settings)
    return clients[settings]


def close_client(settings: ClientSettings) -> None:
    """Closes the client of the cluster; the next call of `shared_client` makes a new one."""
    if stale := clients.pop(settings, None):
        stale.close()


FETCH_BYTES = 8 << 20  # larger responses are slower, not faster, through kafka-python
PARTITION_BYTES = 4 << 20
MAX_FETCH_BYTES = 2**31 - 1  # an int32 in the protocol
FETCH_TIMEOUT_MS = 5_000  # nothing else is read during the wait, and another broker may lead by then
PATIENCE_S = 20.0  # longest time without any progress
PATIENCE_AGAIN_S = 1.0  # on Spark's retry of the task, whose first try waited PATIENCE_S
PATIENCE_ERROR_S = 5.0  # with an error that a change of leaders does not cause, or with a deleted topic


def read_ranges(
    settings: ClientSettings,
    topic: str,
    ranges: Sequence[RangeRead],
    history_prefixes: Sequence[bytes] = (),
    *,
    with_decisions: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yields rows of `fold.rows` for all of `ranges`. `with_decisions`: also rows of `transitions.decisions`. Raises
    KafkaUnavailable if no progress was made for PATIENCE_S (less on a retry of the task, or after a lasting error), and
    KafkaRefused if READ on the topic is denied."""
    for some in split_by_size(ranges):
        reading = _LogRangeReader(settings, topic, some, history_prefixes, with_decisions=with_decisions)
        while reading.unfinished:
            reading.step()
        if reading.folded is not None:
            yield from folded_to_rows(reading.folded)
        for decided in reading.decided:
            yield rows_of("decided", decided)
        if reading.rejects:
            yield rejects_to_rows(reading.rejects)
        yield reads_to_rows(reading.done())


class RangeReader(ABC):
    """Reads the ranges of one topic and tracks the progress of each. A subclass decides what to keep of the bytes
    read."""

    def __init__(self, settings: ClientSettings, topic: str, ranges: Sequence[RangeRead]) -> None:
        self._settings, self._topic = settings, topic
        self._ranges = {r.partition: r for r in ranges}
        self._next_offsets = {r.partition: r.lo for r in ranges}
        self._leader = {r.partition: (r.leader, r.leader_epoch) for r in ranges}
        self._max_bytes = dict.fromkeys(self._ranges, PARTITION_BYTES)
        self._records = dict.fromkeys(self._ranges, 0)
        self._bytes = dict.fromkeys(self._ranges, 0)
        self._suspects: set[tuple[int, int]] = set()
        self._is_deleted = False
        self._last_progress = time.monotonic()
        task = TaskContext.get()
        self._patience_s = PATIENCE_AGAIN_S if task is not None and task.attemptNumber() else PATIENCE_S

    @property
    def unfinished(self) -> list[int]:
        return [p for p, r in self._ranges.items() if self._next_offsets[p] < r.hi]

    def done(self) -> list[RangeRead]:
        return [r._replace(records=self._records[p], bytes=self._bytes[p]) for p, r in self._ranges.items()]

    @abstractmethod
    def _keep(self, chunks: Sequence[Chunk]) -> None:
        """Keeps the whole batches of `chunks`. Moves `_next_offsets` past these batches, and counts their bytes and
        records in `_bytes` and `_records`."""

    def step(self) -> None:
        """Sends one Fetch to each leader, and keeps the records. If a Fetch fails, refreshes the leaders. Raises
        KafkaUnavailable if no progress was made for too long, and KafkaRefused if READ on the topic is denied."""
        before = dict(self._next_offsets)
        failure: KafkaUnavailable | None = None
        for node, partitions in self._by_leader().items():
            try:
                client = shared_client(self._settings)
                answers = fetch_many(client, node, {self._topic: partitions}, FETCH_BYTES, 100, FETCH_TIMEOUT_MS)
                self._handle_answers(client, answers)
            except KafkaUnavailable as e:  # the other leaders are read nevertheless
                failure = e
        if self._next_offsets != before:
            self._last_progress = time.monotonic()
        elif time.monotonic() - self._last_progress > self._patience_with(failure):  # empty answers may never end
            raise KafkaUnavailable(self._why_unreadable(failure))
        if failure is not None:
            self._recover()

    def _patience_with(self, failure: KafkaUnavailable | None) -> float:
        error = failure.reason.error if failure is not None and isinstance(failure.reason, ErrorAnswer) else None
        is_lasting = error is not None and (error not in errors.TRANSIENT or self._is_deleted)
        return min(self._patience_s, PATIENCE_ERROR_S) if is_lasting else self._patience_s

    def _why_unreadable(self, failure: KafkaUnavailable | None) -> Reason:
        left = tuple(self.unfinished)
        nothing = ErrorText(f"{self._topic}-{left[0]}: no records arrive from offset {self._next_offsets[left[0]]} on")
        offsets = tuple(self._next_offsets[p] for p in left)
        return PartitionsUnreadable(self._topic, left, offsets, nothing if failure is None else failure.reason)

    def _by_leader(self) -> dict[int, list[PartitionFetch]]:
        """Returns the unfinished ranges by leader. Partitions with the fewest bytes read come first, because a broker
        fills its response in the order of the request, up to a limit."""
        groups: dict[int, list[PartitionFetch]] = defaultdict(list)
        for p in sorted(self.unfinished, key=lambda p: self._bytes[p]):
            node, epoch = self._leader[p]
            groups[node].append(PartitionFetch(p, self._next_offsets[p], epoch, self._max_bytes[p]))
        return groups

    def _handle_answers(self, client: KafkaClient, answers: list[Fetched]) -> None:
        """Keeps the records of the answers, then raises KafkaUnavailable if a partition answered with an error. Raises
        KafkaRefused if READ on the topic is denied."""
        chunks = []
        failure: KafkaUnavailable | None = None
        for answer in answers:
            p = answer.partition
            if answer.error == errors.OFFSET_OUT_OF_RANGE:
                try:
                    self._skip_deleted(client, p)
                except KafkaUnavailable as e:
                    failure = e
            elif answer.error == errors.TOPIC_AUTHORIZATION_FAILED:
                raise errors.KafkaRefused(NoPermission(self._topic, (READ,)))
            elif answer.error:
                what = f"a fetch of {self._topic}-{p} at offset {self._next_offsets[p]}"
                failure = KafkaUnavailable(ErrorAnswer(self._leader[p][0], what, answer.error))
            elif answer.records:
                chunks.append(Chunk(p, self._next_offsets[p], self._ranges[p].hi, answer.records))
        if chunks:
            self._keep(chunks)
        if failure is not None:
            raise failure

    def _skip_deleted(self, client: KafkaClient, p: int) -> None:
        layout = topic_layout(client, self._topic)
        if layout is None:
            raise KafkaUnavailable(f"topic {self._topic} is gone")
        start = list_offsets(client, layout, EARLIEST).found.get(p)
        if start is None or start <= self._next_offsets[p]:
            raise KafkaUnavailable(f"{self._topic}-{p}: offset {self._next_offsets[p]} is beyond the log's end")
        r = self._ranges[p]
        if r.gap is None:
            self._ranges[p] = r._replace(gap=Gap(self._next_offsets[p], min(start, r.hi), "retention"))
        self._next_offsets[p] = min(start, r.hi)

    def _recover(self) -> None:
        time.sleep(0.2)
        try:
            layout = topic_layout(shared_client(self._settings), self._topic)
        except KafkaUnavailable:
            close_client(self._settings)
            return
        self._is_deleted = layout is None or all(layout.topic_id != r.topic_id for r in self._ranges.values())
        for p, r in self._ranges.items():
            if layout is not None and layout.topic_id == r.topic_id and p in layout.leaders:
                self._leader[p] = (layout.leaders[p].node, layout.leaders[p].epoch)


class _LogRangeReader(RangeReader):
    """Reads the transaction log. Keeps its records as runs (see `fold`), and a list of the records that could not be
    decoded."""

    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        ranges: Sequence[RangeRead],
        history_prefixes: Sequence[bytes],
        *,
        with_decisions: bool,
    ) -> None:
        super().__init__(settings, topic, ranges)
        self._pieces: list[Folded] = []
        self._with_decisions = with_decisions
        self.decided: list[pa.StructArray] = []
        self._scope = Scope(frozenset(r.partition for r in ranges if r.counts), history_prefixes)
        self.rejects: list[Reject] = []

    @property
    def folded(self) -> Folded | None:
        return merge(concat(self._pieces), self._scope) if self._pieces else None

    def _keep(self, chunks: Sequence[Chunk]) -> None:
        columns = decode(chunks)
        sizes = {c.partition: len(c.data) for c in chunks}
        broken_ones = [*columns.broken, *self._unusable_batches(columns, chunks)]
        found_broken = {(b.partition, b.offset) for b in broken_ones}
        if found_broken - self._suspects:
            self._suspects |= found_broken
            return  # bytes may have been damaged on the way: fetch once more before a batch counts as broken
        for broken in broken_ones:
            self._reject_broken(broken)
        for p, next_offset in columns.next_offsets.items():
            if next_offset <= self._next_offsets[p]:
                self._max_bytes[p] = min(self._max_bytes[p] * 2, MAX_FETCH_BYTES)  # no whole batch fits
                continue
            self._bytes[p] += sizes[p]
            self._records[p] += int((columns.partition == p).sum())
            reached = min(next_offset, self._ranges[p].hi)
            self._note_holes(p, reached, columns)
            self._next_offsets[p] = reached
        self.rejects += [
            Reject(**reject._asdict(), generation=self._ranges[reject.partition].generation)
            for reject in columns.rejects
        ]
        if len(columns.offset):
            self._pieces.append(fold(columns, self._scope))
            if self._with_decisions:
                self.decided.append(decisions(columns, self._scope.counted))
            self._fold_pieces()

    def _note_holes(self, p: int, reached: int, columns: LogColumns) -> None:
        """Notes the offsets below `reached` that have no readable record: compaction removed the record, or it cannot
        be decoded."""
        is_readable = (columns.partition == p) & (columns.kind != UNDECODABLE)
        starts, ends = holes(columns.offset[is_readable], self._next_offsets[p], reached)
        if not len(ends):
            return
        self._ranges[p] = self._ranges[p]._replace(hole_end=int(ends[-1]))
        lacking = int((ends - starts).sum()) - sum(reject.partition == p for reject in columns.rejects)
        if not any(broken.partition == p for broken in columns.broken):
            self._ranges[p] = self._ranges[p]._replace(missing=self._ranges[p].missing + max(lacking, 0))

    def _unusable_batches(self, columns: LogColumns, chunks: Sequence[Chunk]) -> Iterator[BrokenBatch]:
        """Yields a broken batch for each answer that is shorter than the fetch limit but has no usable batch. A broker
        sends the first batch whole or nothing at all (KIP-74). So the first batch has either a wrong length or a wrong
        offset."""
        told = {b.partition for b in columns.broken}
        for p, at, _, data in chunks:
            if p not in told and columns.next_offsets[p] <= at and len(data) < self._max_bytes[p]:
                yield misread(p, at, data)

    def _reject_broken(self, broken: BrokenBatch) -> None:
        r = self._ranges[broken.partition]
        reject = Reject(r.partition, r.generation, broken.offset, broken.reason, None, None, broken.raw)
        if reject not in self.rejects:
            self.rejects.append(reject)
        if broken.resume_offset is None:  # the start of the next batch is unknown: try the next offset
            self._next_offsets[r.partition] += 1

    def _fold_pieces(self) -> None:
        """Merges all folded pieces into one as soon as the other pieces together have as many runs as the first piece.
        So the number of pieces stays small."""
        first, *more = (len(piece.runs.partition) for piece in self._pieces)
        if more and sum(more) >= first:
            self._pieces = [merge(concat(self._pieces), self._scope)]
