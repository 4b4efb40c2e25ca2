"""A model of Kafka's transactions, small enough to be checked by reading. It has one transactional.id, the data
partition that is judged, another data partition, the transaction log, and a coordinator that may skip markers
(KAFKA-20734).

Unlike Kafka, the model stores the transaction in which the client wrote each record, and how that transaction ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Final

from service.domain.transaction_log.facts import NO_ID
from service.domain.transaction_log.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EXPIRED,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)

JUDGED: Final = "judged"
OTHER: Final = "other"
LAST_CLIENT_EPOCH: Final = 32_766


class Answered(Random):
    """A random generator in which `random` always returns 0.5, so that no request of the cluster fails. Its integers
    and choices follow from 0.5, so they do not depend on the seed."""

    def random(self) -> float:
        return 0.5


class Protocol(Enum):
    """The protocol of a client. `OLD`: EndTxn up to v4, AddPartitionsToTxn by the client. `TV2`: EndTxn v5, partitions
    added by Produce."""

    OLD = auto()
    TV2 = auto()


@dataclass(slots=True)
class Txn:
    """A transaction as its client and its coordinator know it. `is_commit` is the decision, or None before the
    decision."""

    number: int
    producer_id: int
    epoch: int
    start_ms: int = -1
    listed: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    is_commit: bool | None = None
    kept_epoch: bool = False
    """True if an old request ended the transaction under TV2, so that the epoch did not change."""


@dataclass(slots=True)
class LogRecord:
    """A record of the transaction log. `key` is the id. `is_removed` is set when the cleaner has removed the record."""

    offset: int
    key: str
    timestamp_ms: int
    leader_epoch: int
    state: int
    producer_id: int = NO_ID
    producer_epoch: int = -1
    version: int = 0
    previous_producer_id: int = NO_ID
    start_ms: int = -1
    partitions: frozenset[str] = frozenset()
    is_removed: bool = False


@dataclass(slots=True)
class Batch:
    """A batch of the judged partition. `txn` is the transaction in which its client wrote it, if any. For a marker,
    `is_commit` is its type. `is_foreign` is set if the batch was copied from another cluster."""

    offset: int
    producer_id: int
    epoch: int
    timestamp_ms: int
    leader_epoch: int
    txn: Txn | None = None
    is_marker: bool = False
    is_commit: bool = False
    coordinator_epoch: int = 0
    sequence: int = 0
    is_foreign: bool = False
    fate: bool | None = None
    """The right outcome of the batch: True for COMMIT, False for ABORT, None while undecided. It is the outcome of the
    first transaction decided after the batch that has the batch's producer id and lists the partition. Under TV2, the
    decision on the batch's own transaction counts even if that transaction does not list the partition."""


BEGIN_MS: Final = 1_790_000_000_000


class Cluster:
    """The model of a cluster. If `can_skip` is set, a coordinator that sends markers treats a partition without a
    leader as deleted (KAFKA-20734, 4.3.0 to 4.4.0). The clocks of coordinator, leader and client are wrong by
    `…_skew_ms`."""

    def __init__(self, random: Random, protocol: Protocol, *, can_skip: bool, first_epoch: int = 0) -> None:
        self.random, self.protocol, self.can_skip = random, protocol, can_skip
        self.now_ms = BEGIN_MS
        self.coordinator_skew_ms, self.leader_skew_ms = random.randint(-3000, 3000), random.randint(-3000, 3000)
        self.client_skew_ms = random.randint(-3000, 3000)
        self.log: list[LogRecord] = []
        self.data: list[Batch] = []
        self.has_leader, self.leader_epoch, self.coordinator_epoch = True, 0, 0
        self._watermark_lags = self._log_watermark_lags = 0
        self.state, self.producer_id, self.epoch = EXPIRED, NO_ID, -1
        self.first_epoch, self.version = first_epoch, 0
        self.txn: Txn | None = None
        self.txns: list[Txn] = []
        self.unmarked: set[str] = set()
        self.next_producer_id = 4000

    # the clocks

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    # high watermarks: every write is acknowledged at once, but a new leader knows that only a moment later

    @property
    def high_watermark(self) -> int:
        return max(len(self.data) - self._watermark_lags, 0)

    @property
    def log_high_watermark(self) -> int:
        return max(len(self.log) - self._log_watermark_lags, 0)

    @property
    def tells_its_end(self) -> bool:
        """Returns whether the leader answers ListOffsets for the latest offset. A new leader does not answer until its
        high watermark has caught up (KIP-207)."""
        return self.has_leader and not self._watermark_lags

    @property
    def log_tells_its_end(self) -> bool:
        return not self._log_watermark_lags

    def catch_up(self) -> None:
        self._watermark_lags = self._log_watermark_lags = 0

    # the transaction log

    def append(self, key: str = "id", **fields: object) -> LogRecord:
        at_ms = self.now_ms + self.coordinator_skew_ms
        record = LogRecord(len(self.log), key, at_ms, self.coordinator_epoch, **fields)  # type: ignore[arg-type]
        self.log.append(record)
        self._log_watermark_lags = 0
        return record

    def append_noise(self) -> None:
        """Appends a record of another id."""
        self.append(f"noise-{self.random.randint(0, 2)}", state=EMPTY, producer_id=9000, producer_epoch=0)

    def clean(self, upto: int) -> None:
        """Cleans the log below `upto`: removes superseded records, and about half of the tombstones. If `upto` is odd,
        only records below `upto` supersede others, as with Kafka's cleaner. If `upto` is even, every later record
        supersedes others."""
        newest = {record.key: record.offset for record in (self.log[:upto] if upto % 2 else self.log)}
        for record in self.log[:upto]:
            is_superseded = newest[record.key] != record.offset
            is_tombstone = record.state == EXPIRED and self.random.random() < 0.5
            if is_superseded or is_tombstone:
                record.is_removed = True

    # the judged partition

    def write(self, producer_id: int, epoch: int, txn: Txn | None) -> bool:
        """Appends a data batch of a client. Returns False if there is no leader, or if the leader refuses the epoch or
        the sequence number."""
        seen = [batch for batch in self.data if batch.producer_id == producer_id]
        if not self.has_leader or any(epoch < batch.epoch for batch in seen):
            return False
        if any(batch.is_foreign and batch.epoch == epoch for batch in seen):
            return False  # the leader refuses the sequence number
        self._append_data(producer_id, epoch, self.now_ms + self.client_skew_ms, txn=txn)
        return True

    def write_other(self) -> None:
        """Appends a batch of another client, without a transaction."""
        if self.has_leader:
            self._append_data(NO_ID, -1, self.now_ms, txn=None)

    def copy_foreign(self) -> None:
        """Writes the first batches of the partition as copies from another cluster. This cluster will soon assign the
        producer id of the copies. The epoch, age or sequence of the copies differs from everything that the id of this
        cluster could write."""
        random, producer_id = self.random, self.next_producer_id + self.random.randint(0, 1)
        way = random.choice(("epoch", "older", "sequence"))
        epoch = 20_000 if way == "epoch" else random.choice((0, 0, 1, 3))
        age_ms, first = (3_600_000 if way == "older" else 1_000), (5 if way == "sequence" else 0)
        for sequence in range(first, first + random.randint(1, 3)):
            at_ms = self.now_ms - age_ms
            self.data.append(Batch(len(self.data), producer_id, epoch, at_ms, 0, None))
            self.data[-1].sequence, self.data[-1].is_foreign = sequence, True

    def is_foreign(self, batches: list[Batch]) -> bool:
        """Returns whether the entry holds copied batches whose producer id this cluster has assigned by now.

        Before the assignment, the entry is an orphan. Also returns False if the id that got the producer id has listed
        the partition under the same epoch: the copied batches cannot be distinguished from batches of this id.
        """
        own = {(one.producer_id, one.epoch) for one in self.txns if JUDGED in one.listed}
        first = batches[0]
        return (
            first.is_foreign
            and first.producer_id < self.next_producer_id
            and (first.producer_id, first.epoch) not in own
        )

    def _append_data(self, producer_id: int, epoch: int, at_ms: int, *, txn: Txn | None) -> None:
        self._watermark_lags = 0  # the write is acknowledged, so the followers have reported their positions
        earlier = [batch for batch in self.data if (batch.producer_id, batch.epoch) == (producer_id, epoch)]
        self.data.append(Batch(len(self.data), producer_id, epoch, at_ms, self.leader_epoch, txn))
        self.data[-1].sequence = sum(not batch.is_marker for batch in earlier)

    def append_marker(self, producer_id: int, epoch: int, *, is_commit: bool) -> None:
        at_ms = self.now_ms + self.leader_skew_ms
        self._watermark_lags = 0
        self.data.append(
            Batch(
                len(self.data),
                producer_id,
                epoch,
                at_ms,
                self.leader_epoch,
                None,
                True,
                is_commit,
                self.coordinator_epoch,
            )
        )

    def lose_leader(self) -> None:
        self.has_leader = False

    def lose_markers(self) -> None:
        """Elects a leader that may lack the newest markers, as after an unclean election or with a restored copy."""
        while self.data and self.data[-1].is_marker and self.random.random() < 0.8:
            self.data.pop()
        self.lose_leader()
        self.elect_leader()

    def elect_leader(self) -> None:
        if not self.has_leader:
            self.has_leader = True
            self.leader_epoch += 1
            self._watermark_lags = self.random.choice((0, 0, 1, 2, 5))
            self.leader_skew_ms = self.random.randint(-3000, 3000)

    # the coordinator

    def init_producer(self) -> bool:
        """Handles InitProducerId. Returns False if the client has to retry, because its last transaction has not
        ended."""
        if self.state == ONGOING:
            self._prepare(is_commit=False, epoch=self.epoch + 1)
            return False
        if self.state in (PREPARE_COMMIT, PREPARE_ABORT):
            return False
        if self.state == EXPIRED or self.epoch >= LAST_CLIENT_EPOCH:
            self.producer_id, self.epoch = self.next_producer_id, self.first_epoch if self.state == EXPIRED else 0
            self.next_producer_id += 1
            if self.first_epoch:
                self.first_epoch = 0
        else:
            self.epoch += 1
        self.state, self.txn = EMPTY, None
        self.append(state=EMPTY, producer_id=self.producer_id, producer_epoch=self.epoch, version=self.version)
        return True

    def begin(self) -> Txn | None:
        if self.state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT) and self.txn is None:
            self.txn = Txn(len(self.txns), self.producer_id, self.epoch)
            self.txns.append(self.txn)
            return self.txn
        return None

    def add(self, partition: str) -> bool:
        """Handles AddPartitionsToTxn. Returns False if the coordinator refuses the request.

        Under TV2, the partition's leader sends the request. If the partition already has an open entry of the producer
        id and epoch, the leader sends no request (`UnifiedLog.hasOngoingTransaction`), and the transaction writes to a
        partition that it does not list.
        """
        txn = self.txn
        if txn is None or self.state not in (EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT):
            return False
        if txn.epoch != self.epoch or txn.producer_id != self.producer_id:
            return False
        if partition == JUDGED and self.protocol is Protocol.TV2 and self._is_open(txn):
            return True
        if partition not in txn.listed:
            if txn.start_ms < 0:
                txn.start_ms = self.now_ms + self.coordinator_skew_ms
            txn.listed.add(partition)
            self.version = 2 if self.protocol is Protocol.TV2 else 0
            self.state = ONGOING
            self._append_txn(ONGOING)
        return True

    def _is_open(self, txn: Txn) -> bool:
        """Returns whether the judged partition has an open entry of the transaction's producer id and epoch."""
        mine = [batch for batch in self.data if batch.producer_id == txn.producer_id]
        return bool(mine) and not mine[-1].is_marker and mine[-1].epoch == txn.epoch

    def end(self, *, is_commit: bool, by_old_request: bool = False) -> bool:
        """Handles EndTxn. Returns False if no transaction is open. `by_old_request` means EndTxn v4, which does not
        raise the epoch. Under TV2, the recovery of Flink's sink sends EndTxn v4, too."""
        if self.state != ONGOING:
            return False
        raises = self.protocol is Protocol.TV2 and not by_old_request
        self.version = 2 if raises else 0
        assert self.txn is not None
        self.txn.kept_epoch = self.protocol is Protocol.TV2 and not raises
        self._prepare(is_commit=is_commit, epoch=self.epoch + raises)
        return True

    def time_out(self) -> None:
        if self.state == ONGOING:
            self._prepare(is_commit=False, epoch=self.epoch + 1)

    def _prepare(self, *, is_commit: bool, epoch: int) -> None:
        txn = self.txn
        assert txn is not None
        self.epoch, txn.is_commit = epoch, is_commit
        self.state = PREPARE_COMMIT if is_commit else PREPARE_ABORT
        self._append_txn(self.state)
        self.unmarked = set(txn.listed)
        for batch in self.data:
            # under the old protocol, a batch belongs to the transaction only if its partition was added
            is_its = self.protocol is Protocol.TV2 and batch.txn is txn
            is_due = is_its or (JUDGED in txn.listed and batch.producer_id == txn.producer_id)
            if is_due and not batch.is_marker and batch.fate is None:
                batch.fate = is_commit

    def _append_txn(self, state: int) -> None:
        txn = self.txn
        assert txn is not None
        is_complete = state in (COMPLETE_COMMIT, COMPLETE_ABORT)
        self.append(
            state=state,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            version=self.version,
            start_ms=txn.start_ms,
            partitions=frozenset() if is_complete else frozenset(txn.listed),
        )

    def send_markers(self) -> None:
        """Sends the marker once to each partition that has not acknowledged it. Appends CompleteX when all partitions
        have acknowledged it."""
        if self.state not in (PREPARE_COMMIT, PREPARE_ABORT):
            return
        txn = self.txn
        assert txn is not None
        self.unmarked.discard(OTHER)
        if JUDGED in self.unmarked:
            if self.has_leader:
                self.append_marker(txn.producer_id, self.epoch, is_commit=bool(txn.is_commit))
                if self.random.random() < 0.9:  # in the other cases the answer is lost, and the marker is written again
                    self.unmarked.discard(JUDGED)
            elif self.can_skip:
                self.unmarked.discard(JUDGED)
        if not self.unmarked:
            self._complete(txn)

    def _complete(self, txn: Txn) -> None:
        previous = NO_ID
        if self.epoch > LAST_CLIENT_EPOCH:
            previous, self.producer_id, self.epoch = self.producer_id, self.next_producer_id, 0
            self.next_producer_id += 1
        self.state = COMPLETE_COMMIT if txn.is_commit else COMPLETE_ABORT
        self._append_txn(self.state)
        self.log[-1].previous_producer_id = previous
        self.txn = None

    def move_coordinator(self, log_watermark_lags: int | None = None) -> None:
        """Moves the coordinator. If a transaction is decided and not complete, the new coordinator sends all of its
        markers again. `log_watermark_lags`: the number of records by which the log's high watermark goes back; drawn
        at random if it is None."""
        self.coordinator_epoch += 1
        drawn = self.random.choice((0, 0, 1, 2, 5))
        self._log_watermark_lags = drawn if log_watermark_lags is None else log_watermark_lags
        if self.state in (PREPARE_COMMIT, PREPARE_ABORT) and self.txn is not None:
            self.unmarked = set(self.txn.listed)

    def expire(self) -> None:
        if self.state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT) and self.txn is None:
            self.state = EXPIRED
            self.append(state=EXPIRED)
