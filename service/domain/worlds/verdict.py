"""The verdict on an open entry (the worlds that are left), and the decision that follows from all readings of its
facts.

An unknown decision may become known. A known decision becomes unknown only if the entry has grown or may have grown
since, if a reading overrules the decision (`Verdict.overrules`), or if two readings contradict each other.

| state        | holds from | is read again |
|--------------|------------|---------------|
| UNREAD       | the beginning | at once if an owner is known; else once no transaction will end it |
| PRELIMINARY  | a reading while a transaction could end the entry; not reported | once no transaction will end it |
| RECALLED     | a finding from before a restart; reported | once no transaction will end it |
| UNKNOWN      | a reading that left both markers possible | at once and further back; then every READ_AGAIN_MS |
| KNOWN        | a reading that left one marker | once step 2 of confirmation holds anew, or the entry may have grown |
| CONTRADICTED | two readings that exclude each other | never |
| NO_LOG       | the beginning, if the transaction log cannot be read | never |
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple

from service.domain.partitions.facts import LogPlace
from service.domain.reasons.hanging import (
    Contradiction,
    FactsNotRead,
    ForeignRecords,
    HasGrown,
    NoLogAccess,
    Proven,
    UnlistedWriter,
)
from service.domain.reasons.reason import Reason


class World(StrEnum):
    """One way in which an entry can have been written: within a committed transaction, within an aborted transaction,
    or within no transaction."""

    COMMIT = "commit"
    ABORT = "abort"
    NONE = "none"


class ProofKind(StrEnum):
    """The kind of fact from which a proof follows."""

    EPOCH = "epoch"
    LISTING = "listing"
    MARKER = "marker"
    ORDER = "order"
    COMPLETENESS = "completeness"


class Decided(StrEnum):
    """The decision about an entry: its transaction was committed (COMMIT) or aborted (ABORT), the entry belongs to no
    transaction (NONE), or the decision is not known."""

    COMMIT = "commit"
    ABORT = "abort"
    NONE = "none"
    UNKNOWN = "unknown"


class Proof(NamedTuple):
    """A fact, read at `at_ms`, that rules out ways in which the entry can have been written. `source`: the place where
    the fact can be read again."""

    kind: ProofKind
    at_ms: int
    source: LogPlace | str
    text: str


class Verdict(NamedTuple):
    """The worlds left for an entry, and the decision that follows.

    `decision`: UNKNOWN if both markers may be right. `open_question`: the reason why the decision is unknown; None if
    the decision is known. `holds_committed`: the entry is proven to hold records of a committed transaction, perhaps
    beside other records. `leader_changed`: the partition has had another leader since the entry was written, and a
    marker may have been lost with an earlier leader.
    """

    possible: frozenset[World]
    decision: Decided
    proofs: tuple[Proof, ...]
    open_question: Reason | None
    holds_committed: bool = False
    leader_changed: bool = False

    @property
    def is_known(self) -> bool:
        return self.decision != Decided.UNKNOWN

    @property
    def why(self) -> Reason:
        """Returns why the decision is known (Proven) or unknown (`open_question`)."""
        return self.open_question or Proven(self.decision)

    @property
    def is_contradiction(self) -> bool:
        """Returns whether two readings contradict each other. Nothing shows which reading is wrong, so later readings
        are not trusted either."""
        return isinstance(self.open_question, Contradiction)

    @property
    def overrules(self) -> bool:
        """Returns whether the verdict revokes an earlier decision: a transaction may have written to the entry without
        listing the partition, or no id of this cluster wrote the entry."""
        return isinstance(self.open_question, (ForeignRecords, UnlistedWriter))


def undecided(question: Reason) -> Verdict:
    """Returns a verdict that leaves every world possible. `question`: the reason why the decision is unknown."""
    return Verdict(frozenset(World), Decided.UNKNOWN, (), question)


def decision_of(possible: Set[World]) -> Decided:
    """Returns the decision that follows from these worlds: UNKNOWN if both markers may be right."""
    if World.COMMIT not in possible:
        # if both are possible, an aborted transaction without a marker is likelier than no transaction
        return Decided.ABORT if World.ABORT in possible else Decided.NONE
    return Decided.COMMIT if possible == {World.COMMIT} else Decided.UNKNOWN


READ_AGAIN_MS: Final = 30_000
"""Interval (ms) between readings while the decision is unknown."""


class State(Enum):
    """The states of a decision."""

    UNREAD = auto()
    PRELIMINARY = auto()
    RECALLED = auto()
    UNKNOWN = auto()
    KNOWN = auto()
    CONTRADICTED = auto()
    NO_LOG = auto()


NEXT: Final[dict[State, frozenset[State]]] = {
    State.UNREAD: frozenset(State) - {State.UNREAD},
    State.PRELIMINARY: frozenset({State.PRELIMINARY, State.UNKNOWN, State.KNOWN}),
    State.RECALLED: frozenset({State.RECALLED, State.KNOWN, State.UNKNOWN, State.CONTRADICTED}),
    State.UNKNOWN: frozenset({State.UNKNOWN, State.KNOWN, State.CONTRADICTED}),
    State.KNOWN: frozenset({State.KNOWN, State.UNKNOWN, State.CONTRADICTED}),
    State.CONTRADICTED: frozenset(),
    State.NO_LOG: frozenset(),
}
"""Maps a state to the states that may follow it."""

NOT_READ: Final = undecided(FactsNotRead())
_NO_LOG: Final = undecided(NoLogAccess())


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about an entry: its state, and the results of the readings so far. `newest`: the verdict of the
    reading, or of the finding, that led to the state. `read_at_ms`: the time of the last reading at which no
    transaction could end the entry any more; -1 if there was no such reading. `is_deep`: True if this reading went as
    far back as its bounds allow. `earlier`: the decision about the records that the entry had before it grew; UNKNOWN
    if that decision was not known."""

    state: State = State.UNREAD
    newest: Verdict = NOT_READ
    read_at_ms: int = -1
    is_deep: bool = False
    earlier: Decided = Decided.UNKNOWN

    @property
    def proven(self) -> Decided:
        """Returns the decision that no later reading may contradict, because it holds for records that stay in the
        entry; UNKNOWN if there is none."""
        return self.newest.decision if self.state in (State.RECALLED, State.KNOWN) else self.earlier

    @property
    def verdict(self) -> Verdict:
        """Returns the newest verdict; NOT_READ while the decision is preliminary."""
        return NOT_READ if self.state is State.PRELIMINARY else self.newest

    def reported(self, grown_ms: int, *, is_growing: bool = False) -> Verdict:
        """Returns the verdict to report. HasGrown replaces a known decision if `is_growing`, or if the facts were read
        before `grown_ms` (as in `is_due`), because the entry may then hold records of a transaction with the other
        outcome."""
        is_stale = self.state in (State.KNOWN, State.RECALLED) and (is_growing or self.read_at_ms < grown_ms)
        if not is_stale:
            return self.verdict
        return undecided(HasGrown())._replace(holds_committed=self.proven == Decided.COMMIT)

    @property
    def was_listed(self) -> bool:
        """Returns whether it is proven that a transaction wrote the entry, listed the partition, and has ended. If so,
        no client is still waiting for the partition to be added."""
        return World.NONE not in self.newest.possible and bool(self.newest.proofs)

    def recalled(self, verdict: Verdict) -> Decision:
        """Returns the decision for the verdict of a finding from before a restart: CONTRADICTED if the verdict is a
        contradiction, RECALLED if it is known, else UNKNOWN. Returns this decision unchanged if the facts were read
        since, or if the transaction log cannot be read."""
        if self.state not in (State.UNREAD, State.RECALLED):
            return self
        if verdict.is_contradiction:
            return self._to(State.CONTRADICTED, verdict)
        if verdict.is_known:
            return self._to(State.RECALLED, verdict)
        return self._to(State.UNKNOWN, verdict, earlier=Decided.COMMIT if verdict.holds_committed else Decided.UNKNOWN)

    def without_log(self) -> Decision:
        """Returns the decision of an entry that is judged without the transaction log: NO_LOG if this decision is
        UNREAD, else this decision."""
        return self._to(State.NO_LOG, _NO_LOG) if self.state is State.UNREAD else self

    def is_due(self, now_ms: int, unowned_ms: int | None, grown_ms: int = -1) -> bool:
        """Returns whether to read the facts now. `unowned_ms`: the time (ms) at which it became known that no
        transaction will end the entry; None if a transaction may end it. `grown_ms`: the last time at which a record of
        the owner showed that a transaction may have written to the entry; -1 if there was none."""
        match self.state:
            case State.CONTRADICTED | State.NO_LOG:
                return False
            case State.UNREAD:
                return True
            case State.PRELIMINARY | State.RECALLED:
                return unowned_ms is not None
            case State.KNOWN:
                return unowned_ms is not None and self.read_at_ms < max(unowned_ms, grown_ms)
            case State.UNKNOWN:
                if unowned_ms is None:
                    return False
                is_stale = self.read_at_ms < unowned_ms or now_ms - self.read_at_ms >= READ_AGAIN_MS
                return is_stale or not self.is_deep

    def after(
        self, verdict: Verdict, at_ms: int, unowned_ms: int | None, *, is_deep: bool, has_grown: bool = False
    ) -> Decision:
        """Returns the decision after a reading at `at_ms`. `unowned_ms`: as in `is_due`; `is_deep`: as in the class;
        `has_grown`: the entry has, or may have, more records than at the previous reading."""
        if unowned_ms is None or at_ms < unowned_ms:
            is_first = self.state in (State.UNREAD, State.PRELIMINARY)
            return self._to(State.PRELIMINARY, verdict) if is_first else self
        if self.state in (State.CONTRADICTED, State.NO_LOG):
            return self
        proven = self.proven
        if _call_for_two_markers(proven, verdict.decision):
            question = Contradiction(Proven(proven), verdict.why)
            return self._to(State.CONTRADICTED, undecided(question), at_ms)
        is_kept = self.state in (State.RECALLED, State.KNOWN) and not has_grown and not verdict.overrules
        if is_kept and verdict.decision != self.newest.decision:
            return self._to(State.KNOWN, self.newest, at_ms, is_deep=is_deep)
        if verdict.overrules:
            proven = Decided.UNKNOWN
        elif proven == Decided.COMMIT and not verdict.is_known:
            verdict = verdict._replace(holds_committed=True)  # more records do not remove committed ones
        if verdict.holds_committed:
            proven = Decided.COMMIT
        state = State.KNOWN if verdict.is_known else State.UNKNOWN
        return self._to(state, verdict, at_ms, is_deep=is_deep, earlier=proven)

    def _to(
        self,
        state: State,
        verdict: Verdict,
        at_ms: int = -1,
        *,
        is_deep: bool = False,
        earlier: Decided = Decided.UNKNOWN,
    ) -> Decision:
        if state not in NEXT[self.state]:
            raise ValueError(f"a decision that is {self.state.name} cannot become {state.name}")
        return Decision(state, verdict, at_ms, is_deep, earlier)


def _call_for_two_markers(first: Decided, second: Decided) -> bool:
    """Returns whether both decisions are known, and call for different markers."""
    return Decided.UNKNOWN not in (first, second) and (first == Decided.COMMIT) != (second == Decided.COMMIT)
