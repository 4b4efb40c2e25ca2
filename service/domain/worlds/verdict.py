"""The verdict on an open entry: the worlds that are left, the decision that follows, and the proofs."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum
from typing import NamedTuple

from service.domain.partitions.facts import LogPlace
from service.domain.reasons.decided import Contradiction, ForeignRecords, Proven, UnlistedWriter
from service.domain.reasons.reason import Reason


class World(StrEnum):
    """One way in which an entry can have been written: within a transaction that was committed, within one that was
    aborted, or within none.
    """

    COMMIT = "commit"
    ABORT = "abort"
    NONE = "none"


class ProofKind(StrEnum):
    """The kind of fact that a proof rests on."""

    EPOCH = "epoch"
    LISTING = "listing"
    MARKER = "marker"
    ORDER = "order"
    COMPLETENESS = "completeness"


class Decided(StrEnum):
    """The decision about an entry: its transaction was committed, was aborted, does not exist, or is not known."""

    COMMIT = "commit"
    ABORT = "abort"
    NONE = "none"
    UNKNOWN = "unknown"


class Proof(NamedTuple):
    """A fact, read at `at_ms`, that removes a world. `source` is where the fact can be read again."""

    kind: ProofKind
    at_ms: int
    source: LogPlace | str
    text: str


class Verdict(NamedTuple):
    """The worlds left for an entry, and the decision that follows.

    `decision`: UNKNOWN where more than one marker may be right. `open_question`: why it is unknown, else None.
    `holds_committed`: records of a committed transaction are proven to be in the entry; there may be others.
    `leader_changed`: the partition has had another leader since the entry was written, so that a marker may have been
    lost with one.
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
        """Returns the reason for the decision, or the open question."""
        return self.open_question or Proven(self.decision)

    @property
    def is_contradiction(self) -> bool:
        """Returns whether two readings removed each other's worlds: at least one is wrong, and we do not know which, so
        later ones are not trusted either."""
        return isinstance(self.open_question, Contradiction)

    @property
    def overrules(self) -> bool:
        """Returns whether the open question takes a decision back that was known before: the entry has grown since, or
        its records are not those of its id."""
        return isinstance(self.open_question, (ForeignRecords, UnlistedWriter))


def undecided(question: Reason) -> Verdict:
    """Returns the verdict that leaves every world possible, because no fact was read that would remove one."""
    return Verdict(frozenset(World), Decided.UNKNOWN, (), question)


def decision_of(possible: Set[World]) -> Decided:
    """Returns the decision that these worlds leave: UNKNOWN where more than one marker may be right."""
    if World.COMMIT not in possible:
        # without a marker of it there, an aborted transaction is the likelier of the two
        return Decided.ABORT if World.ABORT in possible else Decided.NONE
    return Decided.COMMIT if possible == {World.COMMIT} else Decided.UNKNOWN
