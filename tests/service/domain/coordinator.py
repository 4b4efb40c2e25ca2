"""A model of a transaction coordinator and of the producers of one transactional.id.

The model writes the transaction log, and notes the true cause of each record that has one. Source:
TransactionCoordinator (endTransaction, prepareInitProducerIdTransit),
TransactionMetadata.prepareIncrementProducerEpoch. The module `lives` chooses the actions of producers at random.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.facts import NO_ID, NO_RECORD, LogRecord

LATE_END = "late_end"
"""Cause of an end: an EndTxn that was sent for an earlier transaction arrived late, and ended the present transaction
(KAFKA-17754)."""
ITSELF = "itself"
"""Cause of an abort: the producer asked for a new epoch while its transaction was open (KIP-360)."""
ZOMBIE = "zombie"
"""Cause of an abort: a fenced producer asked for a new epoch. The coordinator aborted the open transaction, and then
refused the request."""

DAY_MS = 86_400_000
SCAN_MS = 10_000
BEGIN_MS = 1_790_000_000_000
"""The time of the first record. Numbers near 0 are no valid times of transactions."""
LAST_CLIENT_EPOCH, LAST_EPOCH = 32_766, 32_767
COPIED = 0.05
"""Probability that an EndTxn is duplicated and that the duplicate arrives late."""


class Broker(NamedTuple):
    """A broker version.

    - `bumps_twice`: under TV2, an abort by the coordinator raises the epoch by 2, as on 4.0.0.
    - `tags`: records contain the previous producer id, and a fence may rotate the producer id, as from 4.3 on.
    """

    name: str
    versions: tuple[int, ...]  # values of transaction.version that the broker supports
    bumps_twice: bool = False
    tags: bool = False


BROKERS = (
    Broker("3.9", (0,)),
    Broker("4.0.0", (2, 2, 2, 1, 0), bumps_twice=True),
    Broker("4.2", (2, 2, 2, 1, 0)),
    Broker("4.3", (2, 2, 2, 1, 0), tags=True),
)


@dataclass
class Instance:
    """A producer that uses the transactional.id, with the producer id and epoch that it knows. A `modern` client
    supports TV2. `tv2` is true while it uses TV2."""

    modern: bool
    timeout_ms: int
    pid: int = NO_ID
    epoch: int = -1
    tv2: bool = False


class EndCopy(NamedTuple):
    """A duplicate of an EndTxn that is still in flight. `transaction` is the number of the transaction that the client
    wanted to end."""

    pid: int
    epoch: int
    commit: bool
    tv2: bool
    transaction: int


@dataclass(frozen=True)
class Memory:
    """The coordinator's in-memory state of the id. Two late requests are still accepted if they have the epoch
    `last_epoch`: an InitProducerId, and under TV2 an EndTxn that aborts a transaction which the coordinator has already
    aborted."""

    state: int = states.NEVER_SEEN
    pid: int = NO_ID
    epoch: int = -1
    timeout_ms: int = -1
    start_ms: int = -1
    ctv: int = 0
    partitions: int = 0
    last_pid: int = NO_ID
    last_epoch: int = -1
    failed_to_fence: bool = False


@dataclass
class Coordinator:
    """A coordinator of one id.

    - `truth`: the true causes of records, keyed by offset. A record without a cause, such as one that adds a partition,
      is left out.
    - `aborts`: the number of completed aborts of transactions with at least one partition.
    """

    rng: Random
    broker: Broker
    version: int
    now_ms: int = BEGIN_MS
    skewed: bool = True
    log: list[LogRecord] = field(default_factory=list)
    truth: dict[int, str] = field(default_factory=dict)
    aborts: int = 0
    memory: Memory = field(default_factory=Memory)
    next_pid: int = 100
    next_scan_ms: int = BEGIN_MS + SCAN_MS
    transaction: int = 0
    copies: list[EndCopy] = field(default_factory=list)
    loses: bool = False
    """If true, the next record reaches the log, but the coordinator believes that the append failed."""

    # requests of producers and administrators

    def init(self, instance: Instance, *, gives_up: bool = False, is_admin: bool = False) -> None:
        """Handles InitProducerId without a producer id. With `gives_up`, the client does not retry after the abort of
        an open transaction. With `is_admin`, an administrator sends the request, and `instance` stays as it is."""
        if not self._abort_open(CauseCode.ADMIN if is_admin else CauseCode.FENCED, gives_up=gives_up):
            return
        self._initialize(instance.timeout_ms)
        if not is_admin:
            instance.pid, instance.epoch = self.memory.pid, self.memory.epoch
            instance.tv2 = instance.modern and self.version == 2

    def init_own(self, instance: Instance, *, gives_up: bool = False, misses_answer: bool = False) -> None:
        """Handles InitProducerId with the producer's own id and epoch (KIP-360).

        A request with another producer id is refused. Otherwise, an open transaction is aborted, whichever epoch the
        request has. If the request has the current epoch, the epoch rises; with `misses_answer`, the producer then asks
        again with its old epoch. If the request has the previous epoch, the answer has the current one. A producer
        whose request is refused has to initialize again.
        """
        if instance.pid != self.memory.pid or instance.epoch < 0 or self.memory.state == states.NEVER_SEEN:
            instance.epoch = -1
            return
        cause = ITSELF if instance.epoch == self.memory.epoch else ZOMBIE
        if not self._abort_open(cause, gives_up=gives_up):
            return
        before = self.memory
        if before.pid != instance.pid and instance.epoch < LAST_CLIENT_EPOCH:
            instance.epoch = -1  # the coordinator has rotated the producer id
        elif instance.epoch == before.epoch:
            self._initialize(instance.timeout_ms, last_epoch=before.epoch)
            if misses_answer:
                self.init_own(instance)
            else:
                instance.pid, instance.epoch = self.memory.pid, self.memory.epoch
        elif instance.epoch == before.last_epoch:
            changes = {"state": states.EMPTY, "timeout_ms": instance.timeout_ms, "start_ms": -1, "partitions": 0}
            self._write(CauseCode.INITIALIZED, **changes)
            instance.pid, instance.epoch = self.memory.pid, self.memory.epoch
        else:
            instance.epoch = -1

    def _abort_open(self, cause: str, *, gives_up: bool) -> bool:
        """Aborts the open transaction, if there is one, for an InitProducerId. Returns True if the request, or the
        client's retry after an abort, finds the id idle or unknown."""
        if self.memory.state == states.ONGOING:
            self._abort_by_itself(cause)
            if gives_up or self.memory.state == states.ONGOING:
                return False
            self.wait(self.rng.choice([*[0, 20, 100, 100, 1_000] * 5, 12_000]))
        return self.memory.state in states.EXPIRABLE or self.memory.state == states.NEVER_SEEN

    def recover(self, instance: Instance, *, commit: bool) -> None:
        """Handles an EndTxn of the old protocol that a recovery sends with the producer's id and epoch, as Flink's
        committer does."""
        if self._is_current(instance) and self.memory.state == states.ONGOING:
            self._copy(instance, commit=commit, tv2=False)
            self._end(commit=commit, tv2=False)

    def deliver_late(self) -> None:
        """Delivers one of the duplicates of earlier EndTxn requests, if there is one. A duplicate with the current
        producer id and epoch ends the open transaction. Under TV2, a duplicate cannot end a later transaction, because
        every end raises the epoch.
        """
        if not self.copies:
            return
        copy = self.copies.pop(self.rng.randrange(len(self.copies)))
        memory = self.memory
        if memory.state == states.ONGOING and (copy.pid, copy.epoch) == (memory.pid, memory.epoch):
            is_meant = copy.transaction == self.transaction
            self._end(commit=copy.commit, tv2=copy.tv2, cause=None if is_meant else LATE_END)

    def add(self, instance: Instance) -> None:
        """Adds a partition to the transaction. A producer changes its protocol only between transactions."""
        if not self._is_current(instance):
            self._end_late(instance, commit=False)  # the producer learns that it is fenced, and aborts
            return
        is_open = self.memory.state == states.ONGOING
        if not is_open and instance.tv2 != (instance.modern and self.version == 2):
            if not instance.tv2:
                self._initialize(self.memory.timeout_ms)
                instance.epoch, instance.pid = self.memory.epoch, self.memory.pid
            instance.tv2 = not instance.tv2
        self.transaction += not is_open
        self._write(
            "",
            state=states.ONGOING,
            start_ms=self.memory.start_ms if is_open else self.now_ms,
            ctv=2 if instance.tv2 and self.version > 0 else 0,
            partitions=self.memory.partitions + 1 if is_open else 1,
        )

    def end(self, instance: Instance, *, commit: bool) -> None:
        """Handles EndTxn, of version 5 if the producer uses TV2. A producer whose EndTxn is refused has to initialize
        again."""
        if not self._is_current(instance):
            self._end_late(instance, commit)
        elif self.memory.state == states.ONGOING:
            self._copy(instance, commit=commit, tv2=instance.tv2)
            self._end(commit=commit, tv2=instance.tv2)
            self._follow(instance)
        elif instance.tv2 and not commit:
            self._prepare(
                CauseCode.EMPTY_ABORT, states.PREPARE_ABORT, tv2=True, bump=1, start_ms=self.now_ms, partitions=0
            )
            self._follow(instance)

    def _copy(self, instance: Instance, *, commit: bool, tv2: bool) -> None:
        if self.rng.random() < COPIED:
            self.copies.append(EndCopy(instance.pid, instance.epoch, commit, tv2, self.transaction))

    def _end(self, *, commit: bool, tv2: bool, cause: str | None = None) -> None:
        meant = CauseCode.COMMIT if commit else CauseCode.CLIENT_ABORT
        self._prepare(cause or meant, states.PREPARE_COMMIT if commit else states.PREPARE_ABORT, tv2, bump=1)

    def _end_late(self, instance: Instance, commit: bool) -> None:
        """Handles an EndTxn with an epoch that is no longer current. If the coordinator has aborted the transaction, a
        TV2 producer may still request an abort under the previous epoch: the request is accepted without a record, and
        the producer goes on. Any other producer has to initialize again."""
        was = (instance.pid, instance.epoch)
        accepted = was in {(self.memory.pid, self.memory.last_epoch), (self.memory.last_pid, self.memory.last_epoch)}
        if instance.tv2 and not commit and accepted and self.memory.state == states.COMPLETE_ABORT:
            instance.pid, instance.epoch = self.memory.pid, self.memory.epoch
        else:
            instance.epoch = -1

    def _follow(self, instance: Instance) -> None:
        if instance.tv2 and self.memory.state in states.EXPIRABLE:
            instance.pid, instance.epoch = self.memory.pid, self.memory.epoch

    def _is_current(self, instance: Instance) -> bool:
        """Returns whether the producer's id and epoch are current and the id is known. Epoch 32767 is reserved for the
        coordinator."""
        same = (instance.pid, instance.epoch) == (self.memory.pid, self.memory.epoch)
        return same and 0 <= instance.epoch < LAST_EPOCH and self.memory.state != states.NEVER_SEEN

    # actions of the coordinator itself

    def wait(self, ms: int) -> None:
        until = self.now_ms + ms
        while self.next_scan_ms <= until:
            self.now_ms = max(self.now_ms, self.next_scan_ms)
            self.next_scan_ms += SCAN_MS
            memory = self.memory
            if memory.state == states.ONGOING and memory.start_ms + memory.timeout_ms < self.now_ms:
                self._abort_by_itself(CauseCode.TIMEOUT)
        self.now_ms = max(self.now_ms, until)

    def expire(self) -> None:
        self.now_ms += 8 * DAY_MS
        self.next_scan_ms = self.now_ms
        self.wait(0)
        if self.memory.state in states.EXPIRABLE:
            self._append(NO_RECORD._replace(state=states.EXPIRED), CauseCode.EXPIRY)
            self.memory = Memory()

    def move(self, skew_ms: int) -> None:
        """Moves the id to another coordinator, which has its own clock. The new coordinator restores the id's state
        from the newest record, and completes a transaction that was being committed or aborted."""
        self.now_ms += skew_ms if self.skewed else 0
        self.next_scan_ms = self.now_ms + SCAN_MS
        self.loses = False
        if not self.log or self.log[-1].state == states.EXPIRED:
            self.memory = Memory()
            return
        newest = self.log[-1]
        self.memory = Memory(
            newest.state,
            newest.producer_id,
            newest.producer_epoch,
            newest.timeout_ms,
            newest.start_ms,
            newest.client_transaction_version,
            newest.partition_count,
        )
        if newest.state in (states.PREPARE_COMMIT, states.PREPARE_ABORT):
            self._complete(self._successor(by_client=True) if self.broker.tags else NO_ID)

    def use_up_epochs(self, epoch: int) -> None:
        """Raises the epoch of an idle id to `epoch` with a made-up record. A coordinator that loads the record does not
        know the previous epoch."""
        if self.memory.state in states.EXPIRABLE and self.memory.epoch < epoch:
            changes = {"state": states.EMPTY, "epoch": epoch, "start_ms": -1, "partitions": 0, "last_epoch": -1}
            self._write(CauseCode.INITIALIZED, **changes)

    def _abort_by_itself(self, cause: str) -> None:
        before = self.memory
        if self.version == 2:
            self._prepare(cause, states.PREPARE_ABORT, tv2=True, bump=2 if self.broker.bumps_twice else 1, fence=True)
            return
        epoch = before.epoch if before.failed_to_fence else before.epoch + 1
        prepared = self._write(cause, state=states.PREPARE_ABORT, epoch=epoch, ctv=0, last_epoch=-1)
        if prepared:
            self._complete(NO_ID)
        else:
            self.memory = replace(before, epoch=epoch, last_epoch=-1, failed_to_fence=True)

    def _prepare(
        self,
        cause: str,
        state: int,
        tv2: bool,
        bump: int,
        *,
        fence: bool = False,
        start_ms: int | None = None,
        partitions: int | None = None,
    ) -> None:
        before = self.memory
        successor = self._successor(by_client=not fence) if tv2 else NO_ID
        prepared = self._write(
            cause,
            state=state,
            epoch=min(before.epoch + bump, LAST_EPOCH) if tv2 else before.epoch,
            ctv=2 if tv2 and self.version > 0 else 0,
            last_epoch=before.epoch + bump - 1 if tv2 else before.last_epoch,
            start_ms=before.start_ms if start_ms is None else start_ms,
            partitions=before.partitions if partitions is None else partitions,
        )
        if prepared:
            self._complete(successor)

    def _successor(self, *, by_client: bool) -> int:
        """Returns the producer id that replaces the present one after this transaction; NO_ID if the producer id
        stays."""
        if self.memory.epoch < LAST_CLIENT_EPOCH or not (by_client or self.broker.tags):
            return NO_ID
        self.next_pid += 1
        return self.next_pid

    def _complete(self, successor: int) -> None:
        memory = self.memory
        committed = memory.state == states.PREPARE_COMMIT
        was_something = not committed and memory.partitions > 0
        self.now_ms += self.rng.choice([*[0, 1, 3, 3, 40] * 4, 2_000, 11_000])
        changes = {"state": states.COMPLETE_COMMIT if committed else states.COMPLETE_ABORT, "partitions": 0}
        rotation = {"pid": successor, "epoch": 0, "last_pid": memory.pid}
        cause = CauseCode.PID_ROTATED if successor != NO_ID else ""
        ways = changes if successor == NO_ID else changes | rotation
        if not self._write(cause, **ways):
            self.now_ms += self.rng.choice([1, 100, 12_000])
            self._write(cause, **ways)
        self.aborts += was_something

    def _initialize(self, timeout_ms: int, last_epoch: int = -1) -> None:
        """Initializes an idle or unknown id. The client retries once if the append seems to have failed."""
        memory = self.memory
        changes = {"state": states.EMPTY, "timeout_ms": timeout_ms, "start_ms": -1, "partitions": 0}
        changes["last_epoch"] = last_epoch
        for _ in range(2):
            if memory.state == states.NEVER_SEEN or memory.epoch >= LAST_CLIENT_EPOCH:
                self.next_pid += 1
                cause = CauseCode.INITIALIZED if memory.state == states.NEVER_SEEN else CauseCode.PID_ROTATED
                written = self._write(cause, **changes, pid=self.next_pid, epoch=0)
            else:
                written = self._write(CauseCode.INITIALIZED, **changes, epoch=memory.epoch + 1)
            if written:
                return
            self.now_ms += self.rng.choice([1, 100])

    def _write(self, cause: str, **changes: int) -> bool:
        """Appends a record with the coordinator's memory and `changes`. If the append succeeds, keeps the changes in
        memory and returns True. If the coordinator believes that the append failed, drops the changes and returns
        False."""
        after = replace(self.memory, failed_to_fence=False, **changes)
        was = after.pid if self.memory.pid == NO_ID else self.memory.pid
        record = LogRecord(
            offset=-1,
            timestamp_ms=-1,
            leader_epoch=0,
            state=after.state,
            producer_id=after.pid,
            producer_epoch=after.epoch,
            timeout_ms=after.timeout_ms,
            last_update_ms=self.now_ms,
            start_ms=after.start_ms,
            client_transaction_version=after.ctv if self.version > 0 else 0,
            previous_producer_id=was if self.broker.tags and self.version > 0 else NO_ID,
            partition_count=after.partitions,
        )
        self._append(record, cause)
        if self.loses:
            self.loses = False
            return False
        self.memory = after
        return True

    def _append(self, record: LogRecord, cause: str) -> None:
        offset = len(self.log)
        self.log.append(record._replace(offset=offset, timestamp_ms=self.now_ms))
        if cause:
            self.truth[offset] = cause
