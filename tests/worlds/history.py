"""Draws a history of the model, judges it whenever an entry hangs, and compares each verdict with the truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from service.domain.transaction_log.states import OPEN, PREPARE_ABORT, PREPARE_COMMIT
from service.domain.worlds.verdict import Decided, World
from tests.worlds.cluster import JUDGED, OTHER, Batch, Cluster, Protocol, Txn
from tests.worlds.observer import Observer, markers_before, open_entries, verdict

STEPS: Final = 60
SAMPLED_WITHIN_MS: Final = 500
BUSY: Final = 0.1
"""Probability that no sample is taken although there was time, as on a busy machine."""
BLOCK: Final = 1_000

WHILE_RUNNING: Final = "log not cleaned, written while txnscope ran"
FIRST_START: Final = "log not cleaned, written before txnscope started"
CLEANED: Final = "log cleaned"
MIXED: Final = "records of a committed and of an aborted transaction in one entry: no marker is right"
FOREIGN: Final = "records of another cluster: no marker is right"
COPIED: Final = "copied records that cannot be recognised: they are orphans, or an id has listed the partition"
KEPT: Final = "written under TV2, by a transaction that an EndTxn of the old protocol ended"
UNLISTED: Final = "written by a transaction that does not list the partition"


class Wrong(AssertionError):
    """Raised for a verdict that would do harm, for a decision that flips, and for a false hang."""


@dataclass(slots=True)
class Tally:
    """Counts of verdicts, keyed by (class of history, decision), and of open questions, keyed by (class of history,
    code of the question)."""

    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    questions: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class Run:
    """One history. `zombies` has the transactions that the client aborted; a batch of them may still arrive. `decided`
    has the last decision on each entry, keyed by producer id and start offset."""

    cluster: Cluster
    observer: Observer
    random: Random
    tally: Tally
    trace: list[str] = field(default_factory=list)
    zombies: list[Txn] = field(default_factory=list)
    was_cleaned: bool = False
    decided: dict[tuple[int, int], str] = field(default_factory=dict)

    def play(self, seed: int) -> None:
        """Plays the whole history. Raises Wrong, with the seed and all steps in a note."""
        if self.random.random() < 0.7:
            self.begin()
        try:
            for _ in range(STEPS):
                self.step()
            self.end()
        except Wrong as e:
            e.add_note(f"seed {seed}: {self.cluster.protocol.name}, {' '.join(self.trace)}")
            raise

    def begin(self) -> None:
        """Starts txnscope."""
        self.observer.start()

    def end(self) -> None:
        """Restarts txnscope and judges once more. Entries that hang at the end are thus also judged right after a
        restart."""
        self.observer.start()
        self.judge()

    def step(self) -> None:
        cluster, observer = self.cluster, self.observer
        actions = {
            self._transaction: 6,
            self._write: 6,
            self._end: 6,
            cluster.send_markers: 12,
            cluster.init_producer: 2,
            cluster.time_out: 1,
            cluster.lose_leader: 1,
            cluster.elect_leader: 3,
            cluster.catch_up: 2,
            cluster.move_coordinator: 1,
            cluster.append_noise: 1,
            cluster.write_other: 1,
            self._end_in_an_outage: 3,
            self._lose_markers: 0.5,
            self._late_write: 1,
            self._unlisted_write: 1,
            self.early_write: 1,
            self._clean: 1,
            cluster.expire: 1,
            observer.sample_log: 14,
            observer.sample_partition: 14,
            self._restart: 1,
        }
        action = self.random.choices(list(actions), list(actions.values()))[0]
        self.trace.append(action.__name__)
        self.wait(self.random.choice((0, 5, 50, 500, 5000, 20000)))
        action()
        self.judge()

    def wait(self, ms: int) -> None:
        """Advances the clock by `ms`. If `ms` is at least SAMPLED_WITHIN_MS, takes samples of both logs, unless the
        machine is busy."""
        self.cluster.wait(ms)
        if ms >= SAMPLED_WITHIN_MS and self.random.random() > BUSY:
            self.observer.sample_log()
            self.observer.sample_partition()

    def _transaction(self) -> None:
        txn = self.cluster.begin()
        if txn is not None and self.random.random() < 0.7:
            self._write()

    def _write(self) -> None:
        """Writes as an ordinary client, which adds the partition first. `Txn.written` has the partitions to which the
        client wrote."""
        txn = self.cluster.txn
        if txn is None:
            return
        partition = JUDGED if self.random.random() < 0.7 else OTHER
        if not self.cluster.add(partition):
            return
        if partition == OTHER or self.cluster.write(txn.producer_id, txn.epoch, txn):
            txn.written.add(partition)

    def _end(self) -> None:
        """Ends the transaction. A client commits only if it has written to every partition that it added."""
        txn = self.cluster.txn
        if txn is None or not txn.listed or txn.epoch != self.cluster.epoch:
            return
        is_old = self.cluster.protocol is Protocol.OLD
        may_commit = txn.listed == txn.written if is_old else txn.listed <= txn.written
        is_commit = may_commit and self.random.random() < 0.7
        if self.cluster.end(is_commit=is_commit, by_old_request=self.random.random() < 0.1) and not is_commit:
            self.zombies.append(txn)

    def _end_in_an_outage(self) -> None:
        """Ends the transaction while the partition has no leader, so that its marker there may be skipped."""
        self.cluster.lose_leader()
        self._end()
        self.cluster.send_markers()
        if self.random.random() < 0.5:
            self.cluster.elect_leader()

    def _lose_markers(self) -> None:
        self.cluster.lose_markers()
        end = len(self.cluster.data)
        self.decided = {key: decision for key, decision in self.decided.items() if key[1] < end}

    def _late_write(self) -> None:
        """Writes a batch of an aborted transaction, as if it was in flight when the transaction ended. Under TV2,
        writes only if the epoch of the transaction is over. Otherwise the batch would begin a new transaction."""
        if self.zombies:
            txn = self.random.choice(self.zombies)
            if self.cluster.protocol is Protocol.TV2 and txn.epoch == self.cluster.epoch:
                return
            mine = [
                batch for batch in self.cluster.data if batch.producer_id == txn.producer_id and not batch.is_marker
            ]
            if all(
                batch.txn is txn for batch in mine if batch.epoch == txn.epoch and batch.txn not in self._before(txn)
            ):
                self.cluster.write(txn.producer_id, txn.epoch, txn)  # otherwise the leader refuses the sequence number

    def _before(self, txn: Txn) -> list[Txn | None]:
        return [*self.cluster.txns[: txn.number]]

    def _unlisted_write(self) -> None:
        """Writes without AddPartitionsToTxn, as a faulty client or a client of another library does."""
        cluster = self.cluster
        producer_id = cluster.producer_id if self.random.random() < 0.8 else 77
        # a write after committed records whose marker was skipped could not be distinguished from them
        mine = open_entries(cluster).get(producer_id, [])
        if any(batch.txn is not None and batch.txn.is_commit for batch in mine):
            return
        cluster.write(producer_id, max(cluster.epoch, 0), None)

    def early_write(self) -> None:
        """Writes before AddPartitionsToTxn, as some clients of the old protocol do while the request is in flight."""
        txn = self.cluster.txn
        can_write = self.cluster.state not in (PREPARE_COMMIT, PREPARE_ABORT) and self.cluster.protocol is Protocol.OLD
        if txn is None or not can_write or JUDGED in txn.listed:
            return
        if self.cluster.write(txn.producer_id, txn.epoch, txn):
            txn.written.add(JUDGED)

    def _clean(self) -> None:
        if self.random.random() < 0.3:
            self.was_cleaned = True
            self.cluster.clean(self.random.randint(0, len(self.cluster.log)))

    def _restart(self) -> None:
        self.observer.stop()
        if self.random.random() < 0.7:
            self.begin()

    def judge(self) -> None:
        for producer_id, batches in open_entries(self.cluster).items():
            if self.will_be_closed(producer_id, batches):
                self.decided.pop((producer_id, batches[0].offset), None)  # a later hang gets a new decision
                continue
            if not self.observer.is_running or not self.cluster.has_leader or self._is_early(batches):
                continue
            for marker in markers_before(self.cluster, producer_id, batches[0].offset):
                found = verdict(self.cluster, self.observer, producer_id, batches, markers_from=marker.offset + 1)
                self.refuse_harm(batches, found.decision, found)
            found = verdict(self.cluster, self.observer, producer_id, batches)
            if self.check(batches, found.decision, found) and found.open_question is not None:
                question = found.open_question.code
                self.tally.questions[self.kind_of(batches, found.decision), question] += 1

    def will_be_closed(self, producer_id: int, batches: list[Batch]) -> bool:
        cluster = self.cluster
        return (
            cluster.state in OPEN
            and cluster.txn is not None
            and producer_id == cluster.txn.producer_id
            and JUDGED in cluster.txn.listed
            and cluster.epoch >= batches[-1].epoch
        )

    def _is_early(self, batches: list[Batch]) -> bool:
        """Returns whether one of the batches belongs to the present transaction of a client of the old protocol. The
        judge then waits, because AddPartitionsToTxn may be in flight."""
        is_present = any(batch.txn is not None and batch.txn is self.cluster.txn for batch in batches)
        return self.cluster.protocol is Protocol.OLD and is_present

    def _has_present(self, batches: list[Batch]) -> bool:
        """Returns whether one of the batches belongs to the present, undecided transaction, and that transaction has a
        listed partition. Without a listed partition, the coordinator cannot commit the batch, and the producer is
        fenced before a marker is written."""
        txn = self.cluster.txn
        is_open = txn is not None and txn.is_commit is None and bool(txn.listed)
        return is_open and any(batch.txn is txn for batch in batches)

    def check(self, batches: list[Batch], decision: str, said: object) -> bool:
        """Checks the decision. If the decision is new, counts it and returns True. Raises Wrong, with the text of
        `said`, if the decision would do harm or flips."""
        self.refuse_harm(batches, decision, said)
        key = batches[0].producer_id, batches[0].offset
        if self.decided.get(key) == decision:
            return False
        self.decided[key] = decision
        self.tally.verdicts[self.kind_of(batches, decision), decision] += 1
        return True

    def refuse_harm(self, batches: list[Batch], decision: str, said: object) -> None:
        """Raises Wrong if the marker of the decision would do harm, or if an earlier decision called for the opposite
        marker."""
        committed = [batch for batch in batches if batch.fate]
        key = batches[0].producer_id, batches[0].offset
        if decision != Decided.UNKNOWN and self.cluster.is_foreign(batches):
            raise Wrong(f"{decision} of records of another cluster: {batches} {said}")
        if decision in (Decided.ABORT, Decided.NONE) and (committed or self._has_present(batches)):
            raise Wrong(f"ABORT may lose {committed or batches}: {said}")
        if decision == Decided.COMMIT and (not batches[0].fate or any(batch.fate is False for batch in batches)):
            raise Wrong(f"COMMIT of records that were never committed: {batches} {said}")
        before = Decided.UNKNOWN if self.cluster.is_foreign(batches) else self.decided.get(key, Decided.UNKNOWN)
        if Decided.UNKNOWN not in (before, decision) and (before == World.COMMIT) != (decision == Decided.COMMIT):
            raise Wrong(f"the decision flips from {before}: {batches} {said}")

    def kind_of(self, batches: list[Batch], decision: str) -> str:
        """Returns the class of history under which the decision is counted."""
        if any(batch.is_foreign for batch in batches):
            return FOREIGN if self.cluster.is_foreign(batches) else COPIED
        if decision == Decided.UNKNOWN and len({bool(batch.fate) for batch in batches}) > 1:
            return MIXED
        if any(batch.txn is not None and JUDGED not in batch.txn.listed for batch in batches[1:]):
            return UNLISTED
        if self.was_cleaned:
            return CLEANED
        if any(batch.txn is not None and batch.txn.kept_epoch for batch in batches):
            return KEPT
        return WHILE_RUNNING if batches[0].offset >= self.observer.began_at else FIRST_START


def drawn_cluster(random: Random) -> Cluster:
    protocol = random.choice(list(Protocol))
    first_epoch = random.choice((0, 0, 0, 32_760))
    cluster = Cluster(random, protocol, can_skip=random.random() < 0.7, first_epoch=first_epoch)
    if first_epoch == 0 and random.random() < 0.07:
        cluster.copy_foreign()
    return cluster


def draw(seed: int, tally: Tally) -> Run:
    """Plays the history of `seed`, and returns it. Raises Wrong, with the seed in a note."""
    random = Random(seed)
    cluster = drawn_cluster(random)
    run = Run(cluster, Observer(cluster), random, tally)
    run.play(seed)
    return run


def draw_block(first_seed: int) -> tuple[int, Tally, list[str]]:
    """Plays BLOCK histories. Returns the number of histories, their tally, and a line for each wrong one."""
    tally, wrong = Tally(), []
    for seed in range(first_seed, first_seed + BLOCK):
        try:
            draw(seed, tally)
        except Wrong as e:
            wrong.append(f"{e.__notes__[0]}: {e}")
    return BLOCK, tally, wrong
