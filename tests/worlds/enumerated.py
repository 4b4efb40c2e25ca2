"""Plays every small world. A world has two transactions of one id, at most one late write, and a start of txnscope
before or after any step. Each transaction is on the judged partition, on another partition, or on both, and has an end
and a fate of its marker.

Nothing is random, so every run finds every wrong marker in these worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from itertools import product
from random import Random
from typing import Final, NamedTuple

from tests.worlds.cluster import JUDGED, OTHER, Answered, Cluster, Protocol, Txn
from tests.worlds.history import Run, Tally, Wrong
from tests.worlds.observer import Observer

PAUSE_MS: Final = 50


class End(Enum):
    """The end of a transaction. `OLD_…`: EndTxn of the old protocol ends a TV2 transaction, and does not change the
    epoch."""

    COMMIT = auto()
    ABORT = auto()
    TIMEOUT = auto()
    OLD_COMMIT = auto()
    OLD_ABORT = auto()


class Fate(Enum):
    """The fate of the marker on the judged partition. `LOST`: the marker was written, and was lost with the partition's
    leader."""

    WRITTEN = auto()
    SKIPPED = auto()
    LOST = auto()


class Late(Enum):
    """The time at which a late batch of the first transaction arrives, if there is one."""

    NEVER = auto()
    AFTER_FIRST = auto()
    AFTER_SECOND = auto()


class Sampling(Enum):
    """The samples that txnscope takes between two steps: none, or one of the transaction log and one of the partition.
    The name says which of the two comes first."""

    NOTHING = auto()
    LOG_FIRST = auto()
    PARTITION_FIRST = auto()


class Part(NamedTuple):
    """A transaction: its partitions, its end, and the fate of its marker."""

    partitions: tuple[str, ...]
    end: End
    fate: Fate


class SmallWorld(NamedTuple):
    """A small world. If `begins_anew` is set, the client calls InitProducerId between the transactions. txnscope starts
    before step number `starts_at`, counted from 0, or after the last step if `starts_at` is STEPS."""

    protocol: Protocol
    first: Part
    second: Part
    begins_anew: bool
    late: Late
    sampling: Sampling
    starts_at: int


STEPS: Final = 8
_PARTITIONS: Final = ((JUDGED,), (JUDGED, OTHER), (OTHER,))
_ENDS: Final = {Protocol.OLD: (End.COMMIT, End.ABORT, End.TIMEOUT), Protocol.TV2: tuple(End)}


def small_worlds() -> Iterator[SmallWorld]:
    for protocol in Protocol:
        parts = [Part(*one) for one in product(_PARTITIONS, _ENDS[protocol], Fate)]
        for first, second in product(parts, parts):
            for rest in product((True, False), Late, Sampling, range(STEPS + 1)):
                yield SmallWorld(protocol, first, second, *rest)


class _Play:
    """Plays one small world step by step, and judges all open entries after each step."""

    def __init__(self, world: SmallWorld, tally: Tally) -> None:
        random, clocks = Answered(1), Random(repr(world))
        self._world, self._cluster = world, Cluster(random, world.protocol, can_skip=True)
        self._cluster.coordinator_skew_ms = clocks.randint(-3000, 3000)
        self._cluster.leader_skew_ms = clocks.randint(-3000, 3000)
        self._cluster.client_skew_ms = clocks.randint(-3000, 3000)
        self._run = Run(self._cluster, Observer(self._cluster), random, tally)
        self._first: Txn | None = None

    def steps(self) -> tuple[Callable[[], object], ...]:
        world = self._world
        return (
            self._cluster.init_producer,
            lambda: self._begin(world.first),
            lambda: self._end(world.first),
            lambda: self._late_write(Late.AFTER_FIRST),
            lambda: world.begins_anew and self._cluster.init_producer(),
            lambda: self._begin(world.second),
            lambda: self._end(world.second),
            lambda: self._late_write(Late.AFTER_SECOND),
        )

    def play(self) -> None:
        for number, step in enumerate(self.steps()):
            if number == self._world.starts_at:
                self._run.observer.start()
            self._sample()
            step()
            self._cluster.wait(PAUSE_MS)
            self._sample()
            self._run.judge()
        if self._world.starts_at == STEPS:
            self._run.observer.start()
        self._run.judge()

    def _sample(self) -> None:
        observer = self._run.observer
        answers = [observer.sample_log, observer.sample_partition]
        if self._world.sampling is Sampling.NOTHING:
            return
        for _ in range(2):
            for answer in answers if self._world.sampling is Sampling.LOG_FIRST else reversed(answers):
                answer()

    def _begin(self, part: Part) -> None:
        txn = self._cluster.begin()
        self._first = self._first or txn
        for partition in part.partitions if txn is not None else ():
            assert txn is not None
            if self._cluster.add(partition) and partition == JUDGED:
                self._cluster.write(txn.producer_id, txn.epoch, txn)

    def _end(self, part: Part) -> None:
        cluster = self._cluster
        if part.fate is Fate.SKIPPED:
            cluster.lose_leader()
        if part.end is End.TIMEOUT:
            cluster.time_out()
        else:
            is_commit = part.end in (End.COMMIT, End.OLD_COMMIT)
            cluster.end(is_commit=is_commit, by_old_request=part.end in (End.OLD_COMMIT, End.OLD_ABORT))
        cluster.send_markers()
        if part.fate is Fate.LOST:
            cluster.lose_markers()
        cluster.elect_leader()
        cluster.catch_up()

    def _late_write(self, when: Late) -> None:
        """Writes a late batch of the first transaction, if that transaction was aborted. After a commit, a late batch
        could not be distinguished from the committed records.

        Under TV2, writes only if the epoch of the transaction is over. Otherwise the batch would begin a new
        transaction.
        """
        txn, cluster = self._first, self._cluster
        if self._world.late is not when or txn is None or txn.is_commit is not False:
            return
        if self._world.protocol is Protocol.TV2 and txn.epoch == cluster.epoch:
            return
        if any(batch.producer_id == txn.producer_id and batch.txn not in (None, txn) for batch in cluster.data):
            return  # the leader refuses the sequence number
        cluster.write(txn.producer_id, txn.epoch, txn)


def play(world: SmallWorld, tally: Tally) -> None:
    """Plays the world. Raises Wrong, with the world in a note."""
    try:
        _Play(world, tally).play()
    except Wrong as e:
        e.add_note(str(world))
        raise


def play_slice(first: int, step: int) -> tuple[int, Tally, list[str]]:
    """Plays every `step`-th world from number `first` on. Returns the number of worlds, their tally, and a line for
    each wrong world."""
    number, tally, wrong = 0, Tally(), []
    for i, world in enumerate(small_worlds()):
        if i % step != first:
            continue
        number += 1
        try:
            play(world, tally)
        except Wrong as e:
            wrong.append(f"{e.__notes__[-1]}: {e}")
    return number, tally, wrong
