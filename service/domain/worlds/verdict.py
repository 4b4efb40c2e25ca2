"""The verdict on an open entry: which worlds are left, what that decides, and what proved it."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum
from typing import Final, NamedTuple


class World(StrEnum):
    """Within what the coordinator decided, or within nothing, an entry was written."""

    COMMIT = "commit"
    ABORT = "abort"
    NONE = "none"


class Kind(StrEnum):
    """What a proof rests on."""

    EPOCH = "epoch"
    LISTING = "listing"
    MARKER = "marker"
    ORDER = "order"
    COMPLETENESS = "completeness"


UNKNOWN: Final = "unknown"

_WHYS: Final[dict[str, str]] = {
    World.COMMIT: "its transaction was committed, and no marker of it was written to the partition",
    World.ABORT: "no committed transaction can have written it; the one that did was aborted, or it belongs to none",
    World.NONE: "no committed transaction can have written it: it belongs to none",
}


class Proof(NamedTuple):
    """A fact, read at `at_ms`, that removes a world. `source`: where it can be read again."""

    kind: Kind
    at_ms: int
    source: str
    text: str


class Verdict(NamedTuple):
    """`decision`: a World's value, or UNKNOWN. `open_question`: what keeps it unknown; None where it is known.
    `is_contradiction`: proofs contradict each other, so that no later one is believed either."""

    possible: frozenset[World]
    decision: str
    proofs: tuple[Proof, ...]
    open_question: str | None
    is_contradiction: bool = False

    @property
    def is_known(self) -> bool:
        return self.decision != UNKNOWN

    @property
    def why(self) -> str:
        """One line."""
        return self.open_question or _WHYS[self.decision]


def undecided(question: str) -> Verdict:
    """Nothing could be read that would remove a world."""
    return Verdict(frozenset(World), UNKNOWN, (), question)


def contradictory(question: str) -> Verdict:
    """Two readings removed each other's worlds: at least one of them is wrong, and nothing tells which."""
    return undecided(question)._replace(is_contradiction=True)


def decision_of(possible: Set[World]) -> str:
    """A World's value, or UNKNOWN."""
    if World.COMMIT not in possible:
        # without a marker of it there, an aborted transaction is the likelier of the two
        return World.ABORT if World.ABORT in possible else World.NONE
    return World.COMMIT if possible == {World.COMMIT} else UNKNOWN
