"""Histories that the whole application judges. An entry that its own transaction will end must never be confirmed as
hanging."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from service.domain.findings.finding import Finding
from service.domain.transaction_log.states import ONGOING
from service.domain.worlds.verdict import Decided
from tests.worlds.cluster import JUDGED, Batch
from tests.worlds.history import BUSY, SAMPLED_WITHIN_MS, Run, Tally, Wrong, drawn_cluster
from tests.worlds.judged import Judged, Store, batches_of, opened_store
from tests.worlds.observer import Observer, open_entries

BEGINS_MS: Final = 1_790_000_000_000
JUDGED_BLOCK: Final = 50
HASHED_AMONG: Final = 4
"""Number of partitions of the transaction log. With this number, `id` hashes to the partition that has its records."""
GROWN_TO: Final = 5
"""Number of partitions of the transaction log after one was added. `id` then hashes to another partition than the one
that has its records. The coordinator of `id` has not restarted, so it still knows `id`."""
ROUNDS: Final = 4
"""Number of rounds of the judge in a pause of SAMPLED_WITHIN_MS or more."""
LAST_ROUNDS: Final = 10
EARLY_MS: Final = 100
"""Time after which a client that writes before AddPartitionsToTxn has added the partition. The judge waits longer:
`findings.confirmation.ADD_IN_FLIGHT_MS` is 500."""


@dataclass(slots=True, kw_only=True)
class JudgedRun(Run):
    """A history that the whole application judges.

    - `name`: prefix of the names of its clusters in the store.
    - `log_partitions`: number of partitions of the transaction log.
    - `app`: the application that was started last, or None before the first start.
    - `starts`: number of clusters so far.
    - `confirmed`: producer id and start offset of the entries that were confirmed as hanging.
    - `is_over`: True as soon as the last round has begun.
    """

    store: Store
    name: str
    log_partitions: int
    app: Judged | None = None
    starts: int = 0
    confirmed: set[tuple[int, int]] = field(default_factory=set)
    is_over: bool = False

    def begin(self) -> None:
        """Starts the application on a host whose clock may be wrong by ten seconds, either with the data of the last
        start or with none."""
        Run.begin(self)
        self.starts += self.starts == 0 or self.random.random() < 0.3
        skew_ms = self.random.choice((0, 0, -10_000, 10_000))
        self.app = Judged(
            self.store, self.cluster, self.observer, f"{self.name}-{self.starts}", skew_ms, self.log_partitions
        )

    def end(self) -> None:
        if not self.observer.is_running:
            self.begin()
        for _ in range(LAST_ROUNDS):
            self._round(1_000)
        self.is_over = True
        self._round(1_000)

    def wait(self, ms: int) -> None:
        if ms < SAMPLED_WITHIN_MS:
            self.cluster.wait(ms)
            return
        for _ in range(ROUNDS):
            self._round(ms // ROUNDS)

    def early_write(self) -> None:
        Run.early_write(self)
        txn = self.cluster.txn
        if txn is not None and JUDGED in txn.written - txn.listed:
            self._round(EARLY_MS)
            self.cluster.add(JUDGED)

    def judge(self) -> None:
        """Forgets the decisions about entries that the present transaction of the id will end. If the transaction
        leaves an entry hanging after all, a different decision about the entry may be right. The judge itself runs in
        `_round`."""
        for producer_id, batches in open_entries(self.cluster).items():
            if self.will_be_closed(producer_id, batches):
                self.decided.pop((producer_id, batches[0].offset), None)

    def _round(self, ms: int) -> None:
        self.cluster.wait(ms)
        if self.app is None or not self.observer.is_running or self.random.random() < BUSY:
            return
        self.observer.sample_log()
        self.observer.sample_partition()
        for finding in self.app.round():
            if (batches := batches_of(self.cluster, finding)) is not None:
                self._check_finding(finding, batches)

    def _check_finding(self, finding: Finding, batches: list[Batch]) -> None:
        key = batches[0].producer_id, batches[0].offset
        if key not in self.confirmed and self._is_under_way(batches):
            raise Wrong(f"confirmed as hanging, although its transaction goes on: {batches} {finding}")
        self.confirmed.add(key)
        if self.cluster.is_foreign(batches) and key in self.decided and not self.is_over:
            return  # the record that assigned the producer id is not read yet: an orphan
        if not (self.will_be_closed(key[0], batches) or self._is_being_added(batches)):
            self.check(batches, _advised(finding), finding)

    def _is_being_added(self, batches: list[Batch]) -> bool:
        """Returns whether a client of the old protocol has just written, and its AddPartitionsToTxn is in flight. A
        finding from before this write does no harm: the finding advises to stop the producer before a marker is
        written."""
        return self._is_early(batches) and self.cluster.txn is not None and JUDGED not in self.cluster.txn.listed

    def _is_under_way(self, batches: list[Batch]) -> bool:
        """Returns whether the entry's own transaction is open, or its marker is due."""
        cluster = self.cluster
        if cluster.txn is None or JUDGED not in cluster.txn.listed:
            return False
        is_due = cluster.state == ONGOING or JUDGED in cluster.unmarked
        return is_due and any(batch.txn is cluster.txn for batch in batches)


def _advised(finding: Finding) -> Decided:
    """Returns the decision for which the finding advises a marker; UNKNOWN if it advises none. A finding whose producer
    may still write to the entry in an unlisted transaction has no command: its advice is to stop the producer first,
    and to look at the decision again."""
    decision = finding.observation.decision or Decided.UNKNOWN
    is_abort = decision in (Decided.ABORT, Decided.NONE)
    return Decided.UNKNOWN if is_abort and finding.observation.bootstrap is None else decision


def draw_judged(store: Store, seed: int, tally: Tally) -> JudgedRun:
    """Plays the history of `seed`, and returns it. Raises Wrong, with the seed in a note."""
    random = Random(seed)
    cluster = drawn_cluster(random)
    cluster.now_ms = BEGINS_MS
    partitions = GROWN_TO if seed % 4 == 0 else HASHED_AMONG
    run = JudgedRun(
        cluster, Observer(cluster), random, tally, store=store, name=f"history-{seed}", log_partitions=partitions
    )
    run.play(seed)
    return run


def draw_judged_block(first_seed: int) -> tuple[int, Tally, list[str]]:
    """Plays JUDGED_BLOCK histories in one new store. Returns the number of histories, their tally, and a line for each
    wrong one."""
    tally, wrong = Tally(), []
    with TemporaryDirectory(prefix="txnscope-worlds-") as folder, opened_store(Path(folder)) as store:
        for seed in range(first_seed, first_seed + JUDGED_BLOCK):
            try:
                draw_judged(store, seed, tally)
            except Wrong as e:
                wrong.append(f"{e.__notes__[0]}: {e}")
    return JUDGED_BLOCK, tally, wrong
