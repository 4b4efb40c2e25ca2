"""The three steps that confirm that an open entry hangs (docs/hanging.md), as states of its case.

- `Open`: step 1 holds: a sample of the partition shows the entry open. Next, the end offsets of the transaction log are
  requested; without log access, the coordinator is asked.
- `EndsKnown`: the end offsets are known. Next, the log is read and stored up to these offsets. If it then has no
  transaction that will end the entry, step 2 holds.
- `Released`, without log access: the coordinator will not end the entry. Next, the coordinator is asked again after
  ADD_IN_FLIGHT_MS.
- `Unowned`: step 2 holds: no transaction will end the entry. The finding is a candidate. Next, the partition is asked
  once more.
- `Confirmed`: step 3 holds: the partition still showed the entry open.

A case returns to `Open` if the end offsets were requested too soon: a client may still have been waiting to add the
partition. Without log access, a case returns from `Released` if the coordinator's next answer does not release the
entry. A confirmed case never returns.

The states do not show how a case ends. `spark_jobs.judge.open_entries` ends cases, for example because the topic was
deleted. If the entry is no longer open, `spark_jobs.judge.resolution` finds out how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.domain.findings.finding import Evidence
from service.domain.partitions.facts import LogPlace
from service.domain.partitions.open_entries import DescribedOwner, Entry
from service.domain.transaction_log.states import NAMES, TOPIC

ADD_IN_FLIGHT_MS: Final = 500
"""Time (ms) for which AddPartitionsToTxn may be in flight after an entry was written: some clients write a moment
before the coordinator accepts their AddPartitionsToTxn. During this time, an open transaction may still come to include
an entry of its producer."""

CLIENT_WAITS_MS: Final = 35_000
"""Longest time (ms) for which a client waits for a broker that is frozen or cut off, before the client asks the next
broker: Kafka's request.timeout.ms (30 s), and 5 s for the next request."""


@dataclass(frozen=True, slots=True)
class Open:
    """The entry was seen open; nothing more is known."""


@dataclass(frozen=True, slots=True)
class EndsKnown:
    """The end offsets of the transaction log are known. `ends`: the end offset of each partition, as requested at
    `asked_at_ms`."""

    asked_at_ms: int
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Released:
    """The coordinator answered at `since_ms` that it will not end the entry."""

    since_ms: int


@dataclass(frozen=True, slots=True)
class Unowned:
    """Step 2 held at `since_ms`. `log`: the end offsets to which the transaction log was read; None without access to
    the log. `evidence`: the evidence of steps 1 and 2."""

    since_ms: int
    log: EndsKnown | None
    evidence: tuple[Evidence, ...]

    @staticmethod
    def by_log(entry: Entry, log: EndsKnown, log_partition: int | None, now_ms: int) -> Unowned:
        """Returns the result of step 2, proven by a read of the transaction log. `log_partition`: the partition of the
        log that had to be read; None if all partitions had to be read."""
        where = "all partitions" if log_partition is None else f"partition {log_partition}"
        text = f"{where} read to its end: no open transaction there ends the entry"
        return Unowned(now_ms, log, (_seen_open(entry), Evidence(log.asked_at_ms, TOPIC, text)))

    @staticmethod
    def by_coordinator(
        entry: Entry, found: DescribedOwner, name: str, asked_at_ms: int, answered_at_ms: int
    ) -> Unowned:
        """Returns the result of step 2, proven by the second answer of the owner's coordinator. `name`: the owner's
        display text."""
        text = f"the second of two answers: {name} is {NAMES[found.state]}, with no transaction that ends the entry"
        source = f"DescribeTransactions, broker {found.coordinator}"
        return Unowned(answered_at_ms, None, (_seen_open(entry), Evidence(asked_at_ms, source, text)))

    def has_read(self, log_partition: int, offset: int | None) -> bool:
        """Returns True if the record at `offset` of the log partition was read for step 2. `offset` None: there is no
        such record."""
        return self.log is not None and offset is not None and offset < self.log.ends.get(log_partition, -1)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Step 3 held. `unowned`: the result of step 2. `described`: True if the leader listed the entry
    (DescribeProducers); if False, the only sign was that the LSO had not passed the entry. `evidence`: the evidence of
    all three steps."""

    unowned: Unowned
    described: bool
    evidence: tuple[Evidence, ...]

    @staticmethod
    def by_leader(unowned: Unowned, broker: int, asked_at_ms: int, *, described: bool) -> Confirmed:
        """Returns the result of step 3, proven by an answer of the partition's leader. `described`: True if the answer
        is to DescribeProducers, False if it is to ListOffsets."""
        question, text = (
            ("DescribeProducers", "the entry is still open")
            if described
            else ("ListOffsets", "the LSO has not passed the entry")
        )
        step_3 = Evidence(asked_at_ms, f"{question}, broker {broker}", text)
        return Confirmed(unowned, described, (*unowned.evidence, step_3))


Confirmation = Open | EndsKnown | Released | Unowned | Confirmed

NEXT: Final[dict[type[Confirmation], frozenset[type[Confirmation]]]] = {
    Open: frozenset({EndsKnown, Released}),
    EndsKnown: frozenset({Open, Unowned}),
    Released: frozenset({Open, Unowned}),
    Unowned: frozenset({Open, Confirmed}),
    Confirmed: frozenset(),
}
"""Maps a state to the states that may follow it."""


def move(before: Confirmation, after: Confirmation) -> Confirmation:
    """Returns `after`. Raises ValueError if no transition leads from `before` to `after`."""
    if type(after) not in NEXT[type(before)]:
        raise ValueError(f"a case that is {type(before).__name__} cannot become {type(after).__name__}")
    return after


def step_2(state: Confirmation) -> Unowned | None:
    """Returns the result of step 2 (no transaction will end the entry); None if the case has not reached step 2."""
    match state:
        case Unowned():
            return state
        case Confirmed():
            return state.unowned
        case _:
            return None


def _seen_open(entry: Entry) -> Evidence:
    where = LogPlace(*entry.topic_partition, entry.start_offset)
    return Evidence(entry.first_seen_ms, where, f"open: producer id {entry.producer_id}, epoch {entry.producer_epoch}")


def settled_at_ms(written_before_ms: int, disturbed_ms: int) -> int:
    """Returns the earliest time (ms) at which a read of the transaction log can rule out an AddPartitionsToTxn still in
    flight. `written_before_ms`: time before which the entry was written. `disturbed_ms`: the last broker failure or
    coordinator move, after which a client may wait for that broker for CLIENT_WAITS_MS. If this event lies
    CLIENT_WAITS_MS or more before `written_before_ms`, ADD_IN_FLIGHT_MS is enough."""
    may_wait = disturbed_ms > written_before_ms - CLIENT_WAITS_MS
    return written_before_ms + (CLIENT_WAITS_MS if may_wait else ADD_IN_FLIGHT_MS)
