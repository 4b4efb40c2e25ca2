"""Reasons for a decision on the marker of a hanging transaction, known or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from service.domain.reasons.reason import Reason

_DECIDED: Final = {
    "commit": "its transaction was committed, but its marker was never written to the partition",
    "abort": "no committed transaction can have written it: it belongs to an aborted one, or to none",
    "none": "no committed transaction can have written it: it belongs to none",
}


@dataclass(frozen=True)
class Proven(Reason):
    """The proofs leave one decision: the value of a `service.domain.worlds.verdict.World`."""

    decision: str
    code = "proven"

    def __str__(self) -> str:
        return _DECIDED[self.decision]


@dataclass(frozen=True)
class FactsNotRead(Reason):
    """The facts about the entry were not read yet."""

    code = "facts_not_read"
    sentence = "not read yet"


@dataclass(frozen=True)
class NoLogAccess(Reason):
    """The transaction log cannot be read."""

    code = "no_log_access"
    sentence = "__transaction_state cannot be read, and nothing else remembers how a transaction ended"


@dataclass(frozen=True)
class RecordsGone(Reason):
    """The records [lo, hi) of a partition of the transaction log are gone."""

    log_partition: int
    lo: int
    hi: int
    code = "records_gone"
    sentence = (
        "records of __transaction_state-{0.log_partition} in [{0.lo}, {0.hi}) are gone: a committed transaction of the"
        " producer id may have been among them"
    )


@dataclass(frozen=True)
class SeveralLeft(Reason):
    """Transactions that were committed, aborted, or both, may have written the entry: no proof rules them out."""

    committed: bool
    aborted: bool
    code = "several_left"

    def __str__(self) -> str:
        outcomes = ["a committed"] * self.committed + ["an aborted"] * self.aborted
        return f"{' and '.join(outcomes)} transaction may have written it, and nothing shows which"


@dataclass(frozen=True)
class Contradiction(Reason):
    """Two readings rule each other's decision out: at least one of them is wrong."""

    first: Reason
    now: Reason
    code = "contradiction"
    sentence = "two readings contradict each other: first {0.first}; now {0.now}"
