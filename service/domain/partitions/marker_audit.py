"""Compares the markers of a producer id on tailed partitions with what its coordinator decided. Pure.

Only what was read on both sides is compared: every marker given here lies below a position that was stored before the
transaction log was read to its end, so that the decisions of all of them are known; a decision is *closed* on a
partition once the partition was read to an end that was requested after its CompleteX had been read, so that all of its
markers are known. A marker that ended no record is never a contradiction: coordinators write the same marker again
after a failover. Whatever more than one history explains is not called torn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from service.domain.partitions.facts import TopicPartition

MOST_STEPS: Final = 200_000
"""Bound on the work for one producer id on one partition, in pairs of marker and decision; beyond it nothing is
told."""

_MOST_HISTORIES: Final = 4

_FOREIGN: Final = 2
_MISSING: Final = 2
_IN_PLACE: Final = 3
_UNDECIDED: Final = 1
"""Costs of a marker that no decision explains, of a decision without its marker, of both at once, and of a marker of
which the transaction is not decided yet."""


class Result(Enum):
    """The outcome of the comparison of one transaction."""

    WHOLE = "whole"
    TORN = "torn"
    UNSEEN = "unseen"


class Decision(NamedTuple):
    """The end of a transaction as its coordinator decided it: the PrepareX record at `offset` of a log partition.

    - `producer_epoch`: of the PrepareX, which is that of its markers in both protocols.
    - `start_ms`: the time at which its first partition was added, by the coordinator's clock.
    - `participants`: its tailed partitions; `untailed`: the number of the other ones that could be tailed.
    """

    log_partition: int
    offset: int
    transactional_id: bytes
    producer_id: int
    producer_epoch: int
    is_commit: bool
    start_ms: int
    at_ms: int
    participants: tuple[TopicPartition, ...]
    untailed: int

    @property
    def end(self) -> tuple[bytes, int, int, int, bool]:
        """The identity of the end: a coordinator may append its PrepareX twice."""
        return self.transactional_id, self.producer_id, self.producer_epoch, self.start_ms, self.is_commit


class SeenMarker(NamedTuple):
    """A marker on a tailed partition. `ends_from`: the first record that was seen of those that it ended; -1: none
    was."""

    topic: str
    partition: int
    offset: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    at_ms: int
    ends_from: int

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


class Contradiction(NamedTuple):
    """A marker that ended records of the transaction `decision` otherwise than was decided."""

    decision: Decision
    marker: SeenMarker


class Compared(NamedTuple):
    """The comparison of a producer id.

    - `results`: of the decisions that can be told now, the oldest ones; no later batch changes them.
    - `contradictions`: of the decisions that are torn.
    - `own`: by decision, the markers that are as it decided.
    - `used`: the markers that need not be kept any longer.
    """

    results: tuple[tuple[Decision, Result], ...]
    contradictions: tuple[Contradiction, ...]
    own: Mapping[Decision, tuple[SeenMarker, ...]]
    used: tuple[SeenMarker, ...]


class _Explained(NamedTuple):
    """What the markers of one partition say. `own`: by decision, the last one that is as decided; `unclear`: decisions
    of which nothing can be told there."""

    own: dict[Decision, SeenMarker]
    contradictions: frozenset[Contradiction]
    unclear: frozenset[Decision]


def compare(
    decisions: Sequence[Decision], markers: Iterable[SeenMarker], closed: Mapping[Decision, frozenset[TopicPartition]]
) -> Compared:
    """Compares the decisions of one producer id, in the order of its log, with its markers, in any order. `closed`: of
    each decision, the partitions on which it is closed."""
    decisions = _once(decisions)
    by_place: dict[TopicPartition, list[SeenMarker]] = {}
    for marker in sorted(markers, key=lambda one: (one.topic, one.partition, one.offset)):
        by_place.setdefault(marker.topic_partition, []).append(marker)
    explained = {
        place: _explain(
            [one for one in decisions if place in one.participants],
            by_place.get(place, []),
            frozenset(one for one in decisions if place in closed.get(one, ())),
        )
        for place in sorted({place for one in decisions for place in one.participants})
    }
    told: list[tuple[Decision, Result]] = []
    for one in decisions:  # the oldest first: an id has one transaction at a time
        if not frozenset(one.participants) <= closed.get(one, frozenset()):
            break
        told.append((one, _result(one, explained)))
    settled = {one for one, _ in told}
    own = {one: tuple(found.own[one] for found in explained.values() if one in found.own) for one in settled}
    torn = {one for one, result in told if result is Result.TORN}
    contradictions = [each for found in explained.values() for each in found.contradictions if each.decision in torn]
    used = [
        marker
        for place, of_place in by_place.items()
        for marker in _used(of_place, explained.get(place), decisions, settled, place)
    ]
    return Compared(tuple(told), tuple(sorted(contradictions, key=lambda each: each.marker)), own, tuple(sorted(used)))


def _once(decisions: Sequence[Decision]) -> list[Decision]:
    """Returns the decisions without those that were appended again; the last record of each stays."""
    ordered = sorted(decisions, key=lambda one: one.offset)
    return [
        one for one, after in pairwise([*ordered, None]) if one is not None and (after is None or after.end != one.end)
    ]


def _result(one: Decision, explained: Mapping[TopicPartition, _Explained]) -> Result:
    places = [explained[place] for place in one.participants]
    if any(each.decision == one for found in places for each in found.contradictions):
        return Result.TORN
    is_seen = bool(places) and all(one in found.own and one not in found.unclear for found in places)
    return Result.WHOLE if is_seen and not one.untailed else Result.UNSEEN


def _used(
    markers: Sequence[SeenMarker],
    found: _Explained | None,
    decisions: Sequence[Decision],
    settled: set[Decision],
    place: TopicPartition,
) -> Iterable[SeenMarker]:
    """Yields the markers up to the last one of a settled decision, and those behind it that can belong to none that is
    still to come."""
    theirs = [] if found is None else [found.own[one].offset for one in settled if one in found.own]
    foreign = () if found is None else found.contradictions
    done = max([*theirs, *(each.marker.offset for each in foreign if each.decision in settled)], default=-1)
    settled_ms = max((one.at_ms for one in settled if place in one.participants), default=None)
    left = {
        (one.producer_epoch, one.is_commit) for one in decisions if one not in settled and place in one.participants
    }
    for marker in markers:
        is_late = marker.ends_from >= 0 and (settled_ms is None or marker.at_ms >= settled_ms)
        may_matter = is_late or (marker.producer_epoch, marker.is_commit) in left
        if marker.offset <= done or not may_matter:
            yield marker


def _explain(decisions: Sequence[Decision], markers: Sequence[SeenMarker], closed: frozenset[Decision]) -> _Explained:
    """Explains the markers of one partition, in order, by the decisions that list it."""
    if (plain := _plainly(decisions, markers, closed)) is not None:
        return plain
    if len(decisions) * len(markers) > MOST_STEPS:
        return _Explained({}, frozenset(), frozenset(decisions))
    histories = _cheapest(decisions, markers, closed)
    if not histories:
        return _Explained({}, frozenset(), frozenset(decisions))
    first = histories[0]
    owns = [dict(each.own) for each in histories]
    own = {
        one: min((of_one[one] for of_one in owns), key=lambda marker: marker.offset)
        for one in owns[0]
        if all(one in of_one for of_one in owns)
    }
    unclear = frozenset(one for one in decisions if one in closed and one not in own)
    is_certain = all(each.foreign == first.foreign and not each.skipped for each in histories)
    if not is_certain or len(histories) >= _MOST_HISTORIES:
        return _Explained(own, frozenset(), unclear | frozenset(one for each in histories for one, _ in each.foreign))
    torn = frozenset(Contradiction(one, marker) for one, marker in first.foreign if _contradicts(one, marker))
    return _Explained(own, torn, unclear | {one for one, _ in first.foreign})


def _contradicts(one: Decision, marker: SeenMarker) -> bool:
    """Returns whether the marker, not the coordinator's, ended records of the transaction otherwise. One from before
    the transaction began ended older records."""
    return marker.is_commit != one.is_commit and marker.at_ms >= one.start_ms


def _is_own(one: Decision, marker: SeenMarker) -> bool:
    return (one.producer_epoch, one.is_commit) == (marker.producer_epoch, marker.is_commit)


def _plainly(
    decisions: Sequence[Decision], markers: Sequence[SeenMarker], closed: frozenset[Decision]
) -> _Explained | None:
    """Explains by one marker for each decision, and markers that ended nothing; None where that is not enough."""
    own: dict[Decision, SeenMarker] = {}
    at = 0
    for marker, after in pairwise([*markers, None]):
        assert marker is not None
        expected = decisions[at] if at < len(decisions) else None
        if expected is not None and _is_own(expected, marker):
            is_empty = marker.ends_from < 0
            is_repeated = after is not None and after.ends_from >= 0 and _is_own(expected, after)
            if is_empty and (expected not in closed or is_repeated):
                continue  # perhaps a repetition of an earlier one
            own[expected] = marker
            at += 1
        elif marker.ends_from >= 0:
            return None
    if any(one in closed for one in decisions[at:]):
        return None
    return _Explained(own, frozenset(), frozenset())


class _History(NamedTuple):
    """One way in which the markers may have come about. `at`: decisions passed so far. `foreign`: markers that no
    decision explains, each with the decision whose records it ended; `skipped`: decisions without a marker."""

    cost: int
    at: int
    own: tuple[tuple[Decision, SeenMarker], ...] = ()
    foreign: frozenset[tuple[Decision, SeenMarker]] = frozenset()
    skipped: tuple[Decision, ...] = ()


def _cheapest(
    decisions: Sequence[Decision], markers: Sequence[SeenMarker], closed: frozenset[Decision]
) -> list[_History]:
    """Returns the histories with the fewest foreign and missing markers, at most _MOST_HISTORIES."""
    states: dict[int, list[_History]] = {0: [_History(0, 0)]}
    for marker in markers:
        following: dict[int, list[_History]] = {}
        for history in (each for some in states.values() for each in some):
            for each in _steps(history, marker, decisions, closed):
                _keep(following.setdefault(each.at, []), each)
        states = following
    ended: list[_History] = []
    for history in (each for some in states.values() for each in some):
        missing = tuple(one for one in decisions[history.at :] if one in closed)
        _keep(
            ended,
            history._replace(cost=history.cost + _MISSING * len(missing), at=0, skipped=(*history.skipped, *missing)),
        )
    return ended


def _steps(
    history: _History, marker: SeenMarker, decisions: Sequence[Decision], closed: frozenset[Decision]
) -> Iterable[_History]:
    at, is_empty = history.at, marker.ends_from < 0
    if is_empty:
        yield history
    elif at < len(decisions):
        one = decisions[at]
        foreign = history.foreign | {(one, marker)}
        yield history._replace(cost=history.cost + _FOREIGN, foreign=foreign)
        if one in closed and not _is_own(one, marker) and one.producer_epoch == marker.producer_epoch:
            yield history._replace(cost=history.cost + _IN_PLACE, foreign=foreign, at=at + 1)
    else:
        yield history._replace(cost=history.cost + _UNDECIDED)
    for next_at in range(at, len(decisions)):
        one = decisions[next_at]
        if _is_own(one, marker) and (one in closed or not is_empty):
            skipped = tuple(each for each in decisions[at:next_at])
            yield history._replace(
                cost=history.cost + _MISSING * len(skipped),
                at=next_at + 1,
                own=(*history.own, (one, marker)),
                skipped=(*history.skipped, *skipped),
            )


def _keep(some: list[_History], new: _History) -> None:
    """Adds the history if none is cheaper; those that cost more go. Of two that differ in nothing but which repetition
    of a marker is the decision's own, the one with the earlier markers stays."""
    if some and some[0].cost < new.cost:
        return
    if some and some[0].cost > new.cost:
        some.clear()
    for n, other in enumerate(some):
        if (other.foreign, other.skipped, len(other.own)) == (new.foreign, new.skipped, len(new.own)):
            some[n] = min(other, new, key=lambda one: [marker.offset for _, marker in one.own])
            return
    if len(some) < _MOST_HISTORIES:
        some.append(new)
