"""The use of transactional.ids, and the naming strategy of Apache Flink's KafkaSink that this use shows.

Sources: `TransactionNamingStrategyImpl` and `KafkaSinkBuilder` (flink-connector-kafka 5.0.0)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

INCREMENTING: Final = "INCREMENTING"
POOLING: Final = "POOLING"

IN_USE: Final = (1 << 63) - 1
"""Stands for the time of the last use of an id whose transaction is open: later than any time."""

INITS_KEPT: Final = 6
"""Number of the newest InitProducerIds of an id that are kept, because they show how the id is used."""


class Init(NamedTuple):
    """An InitProducerId: the time of its record in the transaction log, and the epoch that the producer got."""

    at_ms: int
    epoch: int


class Behaviour(NamedTuple):
    """The use of an id, as far as it is known.

    - `inits`: the newest InitProducerIds, oldest first.
    - `last_use_ms`: the update time of its newest record. IN_USE while a transaction is open, or while that record
      cannot be decoded; None if the id never had a transaction.
    - `ends`: number of its transactions that ended; None if not known.
    - `was_cut`: its newest transaction was aborted by timeout or fence.
    """

    name: str
    timeout_ms: int
    client_transaction_version: int = 0
    inits: tuple[Init, ...] = ()
    last_use_ms: int | None = None
    ends: int | None = None
    was_cut: bool = False


def flink_strategy(of_subtask: Mapping[int, Behaviour]) -> str | None:
    """Returns the naming strategy that the ids of one subtask show; None if the ids show no strategy. `of_subtask`: a
    mapping from the number in an id to the use of that id.

    A KafkaSink initialises the id of the next transaction when a checkpoint begins, and commits the previous
    transaction when the checkpoint is complete. So each id has one transaction, which ends soon after the
    InitProducerId of the next id. Other applications end transactions at any time, and run more than one transaction
    under each id."""
    if _are_handed_over(of_subtask):
        return INCREMENTING
    return POOLING if _are_pooled(of_subtask) else None


_MOST_ENDS: Final = 3  # an id of INCREMENTING: its commit, and the aborts of attempts that failed
_FEWEST: Final = 2
_IDLE: Final = 10  # this many successive ids prove INCREMENTING, too, if none of them proves the contrary


def _are_handed_over(of_subtask: Mapping[int, Behaviour]) -> bool:
    found = Counter(
        _is_handed_over(behaviour, of_subtask[number + 1], of_subtask.get(number + 2))
        for number, behaviour in of_subtask.items()
        if number + 1 in of_subtask
    )
    if found[False] * 3 > found[True]:
        return False
    return found[True] >= _FEWEST or (not found[False] and found[None] >= _IDLE)


def _is_handed_over(behaviour: Behaviour, after: Behaviour, next_but_one: Behaviour | None) -> bool | None:
    """Returns whether the last use of the id lies between the first InitProducerIds of the next two ids, `after` and
    `next_but_one`; None if that is not known. Returns False also if `after` was not initialised after the id, or if
    the id ended more than `_MOST_ENDS` transactions."""
    if not behaviour.inits or not after.inits:
        return None
    if after.inits[0].at_ms <= behaviour.inits[0].at_ms or (behaviour.ends or 0) > _MOST_ENDS:
        return False
    if behaviour.last_use_ms in (None, IN_USE) or behaviour.was_cut:
        return None
    is_open_until = after.inits[0].at_ms <= (behaviour.last_use_ms or 0)
    if next_but_one is not None and next_but_one.inits:
        return is_open_until and (behaviour.last_use_ms or 0) <= next_but_one.inits[0].at_ms
    return is_open_until


def _are_pooled(of_subtask: Mapping[int, Behaviour]) -> bool:
    """Returns whether a few ids take turns at regular intervals, each with at most one transaction between two of its
    InitProducerIds. A process that restarts again and again initialises all its ids at once.

    Under TV2, the epochs show the number of transactions. In the old protocol, a commit keeps the epoch, so the epochs
    are not enough: the newest turn must also begin before the transaction of the previous turn has ended."""
    turns = _turns(of_subtask)
    numbers = [number for _, number in turns]
    repeated = sum(numbers.count(number) > 1 for number in set(numbers))
    if repeated < _FEWEST or len(turns) < 2 * _FEWEST + 1:
        return False
    if not all(_is_reused(behaviour) for behaviour in of_subtask.values()):
        return False
    is_tv2 = any(behaviour.client_transaction_version >= 2 for behaviour in of_subtask.values())
    is_even = _are_even([after - before for (before, _), (after, _) in pairwise(turns)])
    newest_ms, newest = turns[-1]
    before = next(number for _, number in reversed(turns) if number != newest)
    return is_even and (is_tv2 or (of_subtask[before].last_use_ms or 0) >= newest_ms)


def _turns(of_subtask: Mapping[int, Behaviour]) -> list[tuple[int, int]]:
    """Returns (time, number of the id) for each InitProducerId, oldest first. If several in a row are of the same id,
    only the last one is returned: a job that starts again initialises an id once to fence the transaction that it
    finds, and once more to use the id."""
    found: list[tuple[int, int]] = []
    for turn in sorted((init.at_ms, number) for number, behaviour in of_subtask.items() for init in behaviour.inits):
        if found and found[-1][1] == turn[1]:
            found.pop()
        found.append(turn)
    return found


def _is_reused(behaviour: Behaviour) -> bool:
    """Returns whether the epoch rose by at most 2 from each InitProducerId to the next: by one for the InitProducerId
    itself, and by at most one for an event in between (the end of a transaction under TV2, a fence, or a timeout)."""
    return all(after.epoch - before.epoch <= 2 for before, after in pairwise(behaviour.inits))


def _are_even(gaps_ms: Sequence[int]) -> bool:
    """Returns whether at most a third of the gaps are shorter than a quarter of the usual gap (the upper quartile). A
    restarted job makes a few short gaps; a process with two ids that restarts in a loop makes every second gap
    short."""
    usual_ms = sorted(gaps_ms)[3 * len(gaps_ms) // 4]
    return 3 * sum(gap < usual_ms / 4 for gap in gaps_ms) <= len(gaps_ms)
