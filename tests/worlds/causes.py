"""Draws random histories of an id, with the true cause of each end. Compares each cause that txnscope gives with the
truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.journal import Transition
from tests.service.domain.coordinator import ITSELF, LATE_END, ZOMBIE, Coordinator
from tests.service.domain.lives import a_life
from tests.service.domain.records import reported

STEPS: Final = 25
CAUSES_BLOCK: Final = 500

RIGHT: Final[dict[str, frozenset[str]]] = {
    CauseCode.CLIENT_ABORT: frozenset({CauseCode.CLIENT_ABORT, ITSELF}),
    CauseCode.INITIALIZED: frozenset(
        {CauseCode.INITIALIZED, CauseCode.PID_ROTATED}
    ),  # an Empty record that rotates the producer id also initializes the id
}
"""A mapping from a cause that txnscope gives to the true causes for which it counts as right. A cause that is not a key
counts as right only if it equals the true cause."""

RARE: Final[dict[str, frozenset[str]]] = {
    CauseCode.COMMIT: frozenset({LATE_END}),
    CauseCode.CLIENT_ABORT: frozenset({LATE_END, CauseCode.FENCED, CauseCode.ADMIN, ZOMBIE}),
    CauseCode.TIMEOUT: frozenset({CauseCode.CLIENT_ABORT, CauseCode.FENCED, CauseCode.ADMIN, ITSELF, ZOMBIE}),
    CauseCode.FENCED: frozenset({CauseCode.ADMIN, ITSELF, ZOMBIE, CauseCode.TIMEOUT, CauseCode.CLIENT_ABORT}),
    CauseCode.ADMIN: frozenset({CauseCode.FENCED, CauseCode.CLIENT_ABORT, ITSELF, ZOMBIE, CauseCode.TIMEOUT}),
    CauseCode.PID_ROTATED: frozenset({CauseCode.INITIALIZED}),
}
"""For each likely cause, the other true causes that docs/causes.md names as exceptions. The exceptions come from an
instance that gave up, a clock that was set back, an end between the timeout and the next scan, a producer that was
refused and at once created again, or transaction.version lowered to 0 in the middle of a TV2 transaction."""


class WrongCause(AssertionError):
    """Raised if a certain cause is wrong. Also raised if a likely cause is wrong, and docs/causes.md does not list the
    true cause as an exception."""


@dataclass(slots=True)
class Tally:
    """The number of times that each true cause occurred, for each cause and confidence that txnscope gave."""

    truths: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def add(self, cause: str, confidence: str, truth: str, times: int = 1) -> None:
        self.truths.setdefault((cause, confidence), Counter())[truth] += times


def draw_causes(seed: int, tally: Tally) -> Coordinator:
    """Draws a random history of an id from `seed`, and returns its coordinator. First judges the whole log, and adds
    the causes to `tally`. Then judges only the records that compaction might keep. Raises WrongCause."""
    rng = Random(seed)
    life = a_life(rng, STEPS, skewed=rng.random() < 0.7)
    for row, truth in _causes_of(life.log, life):
        tally.add(row.cause or "", row.confidence or "", truth)
        _refuse(seed, row, truth, RARE if row.confidence == Confidence.LIKELY else {})
    kept = [record for record in life.log if rng.random() < 0.7 or record is life.log[-1]]
    for row, truth in _causes_of(kept, life):
        if row.confidence == Confidence.CERTAIN:
            _refuse(seed, row, truth, {})
    return life


def _causes_of(log: list[LogRecord], life: Coordinator) -> Iterable[tuple[Transition, str]]:
    return ((row, life.truth.get(row.offset, "nothing")) for row in reported(log).rows if row.cause is not None)


def _refuse(seed: int, row: Transition, truth: str, rare: dict[str, frozenset[str]]) -> None:
    """Raises WrongCause if a certain or likely cause is neither right nor one of the rare cases."""
    cause = row.cause or ""
    if row.confidence in (Confidence.CERTAIN, Confidence.LIKELY) and truth not in RIGHT.get(cause, {cause}) | rare.get(
        cause, frozenset()
    ):
        raise WrongCause(f"seed {seed}, offset {row.offset}: {cause}, {row.confidence}, but it was {truth}")


def draw_causes_block(first_seed: int) -> tuple[Tally, list[str]]:
    """Draws CAUSES_BLOCK random histories of an id. Returns their tally, and a line for each history with a wrong
    cause."""
    tally, wrong = Tally(), []
    for seed in range(first_seed, first_seed + CAUSES_BLOCK):
        try:
            draw_causes(seed, tally)
        except WrongCause as e:
            wrong.append(str(e))
    return tally, wrong


def share_right(tally: Tally, cause: str, confidence: str) -> float:
    truths = tally.truths[cause, confidence]
    right = sum(n for truth, n in truths.items() if truth in RIGHT.get(cause, {cause}))
    return right / truths.total()
