"""Explains the markers of a producer id on one partition by the decisions of its coordinator. Pure.

A marker belongs to a decision by epoch, outcome and order. Markers may be missing, written twice (coordinators write
the same marker again after a failover), or foreign. A history is one way in which the markers may have come about, with
a cost for each irregularity. Decisions on which the cheapest histories disagree are unclear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.marker_causes import CLOSE_MS

MOST_STEPS: Final = 200_000
"""Maximum number of pairs of marker and decision that are compared for one producer id on one partition. Beyond this
bound, all decisions are unclear."""

NOT_KNOWN: Final = -1

_MOST_HISTORIES: Final = 4

_FOREIGN: Final = 2
_MISSING: Final = 2
_IN_PLACE: Final = 3
_UNDECIDED: Final = 1
"""The costs of irregularities in a history. `_FOREIGN`: a marker that no decision explains. `_MISSING`: any number of
decisions in a row without their markers. `_IN_PLACE`: a foreign marker in the place of the decided marker.
`_UNDECIDED`: a marker whose transaction is not decided yet.

Missing markers in a row cost as much as one, because a single cause hides them all (a comparison that begins in the
middle of a log, a partition without a leader). If each missing marker counted, the cheapest history would assign to
every decision the marker of a later decision, until an ABORT marker contradicts a commit. (In the old protocol, all
these markers have the same epoch.)"""

_UNTIMELY: Final = 1
"""Cost of a marker whose time does not fit its decision (`_is_timely`), used only in the explanation that trusts
clocks. Clocks may be wrong, so a torn transaction is reported only if it is torn in both explanations, with and without
clocks."""


class Decision(NamedTuple):
    """The end of a transaction as its coordinator decided it: the PrepareX record at `offset` of a log partition.

    - `producer_epoch`: the epoch in the PrepareX; its markers have the same epoch in both protocols.
    - `start_ms`: the time at which its first partition was added, by the coordinator's clock.
    - `participants`: the tailed partitions of the transaction; `untailed`: the number of its other partitions; Kafka's
      own topics do not count, because they are never tailed.
    - `after_ms`: a time, by our clock, at which the transaction was not decided yet: the end offset of the log
      partition, requested at this time, was at most `offset`. NOT_KNOWN: no such end offset is known.
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
    after_ms: int = NOT_KNOWN

    @property
    def end(self) -> tuple[bytes, int, int, int, bool]:
        """The values that identify the end of a transaction, even if the coordinator appended its PrepareX twice."""
        return self.transactional_id, self.producer_id, self.producer_epoch, self.start_ms, self.is_commit


class SeenMarker(NamedTuple):
    """A marker on a tailed partition. `ends_from`: the offset of the first record that the marker ended, among the
    records that were seen; -1 if none of them was seen."""

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
    """A marker that ended records of the transaction `decision` with another outcome than the decided one."""

    decision: Decision
    marker: SeenMarker


class Explained(NamedTuple):
    """The result of matching the markers of one partition with decisions. `own`: a mapping from decision to its marker;
    if the marker was repeated, to the repetition that ended records, or else to the first marker. `unclear`: the
    decisions for which the partition proves nothing."""

    own: dict[Decision, SeenMarker]
    contradictions: frozenset[Contradiction]
    unclear: frozenset[Decision]


def explain(decisions: Sequence[Decision], markers: Sequence[SeenMarker], closed: frozenset[Decision]) -> Explained:
    """Matches the markers of one partition with the decisions that list the partition. Markers and decisions are in the
    order of their logs."""
    if (plain := _plainly(decisions, markers, closed)) is not None:
        return plain
    if len(decisions) * len(markers) > MOST_STEPS:
        return Explained({}, frozenset(), frozenset(decisions))
    histories = _cheapest(decisions, markers, closed, untimely=0)
    if not histories:
        return Explained({}, frozenset(), frozenset(decisions))
    owns = [dict(each.own) for each in histories]
    own = {
        own: min((of_one[own] for of_one in owns), key=lambda marker: marker.offset)
        for own in owns[0]
        if all(own in of_one for of_one in owns)
    }
    unclear = frozenset(decision for decision in decisions if decision in closed and decision not in own)
    doubtful = frozenset(decision for each in histories for decision, _ in each.foreign)
    foreign = _certainly_foreign(histories)
    if foreign:
        foreign &= _certainly_foreign(_cheapest(decisions, markers, closed, untimely=_UNTIMELY))
    torn = frozenset(Contradiction(decision, marker) for decision, marker in foreign if _contradicts(decision, marker))
    return Explained(own, torn, unclear | doubtful)


def _certainly_foreign(histories: Sequence[_History]) -> frozenset[tuple[Decision, SeenMarker]]:
    """Returns the foreign markers if they are certain, else an empty set. The foreign markers are certain if all
    histories agree on them and no history skips a decision. If there are _MOST_HISTORIES histories, the set is empty,
    because further histories may have been left out."""
    first = histories[0]
    is_certain = all(each.foreign == first.foreign and not each.skipped for each in histories)
    return first.foreign if is_certain and len(histories) < _MOST_HISTORIES else frozenset()


def _contradicts(decision: Decision, marker: SeenMarker) -> bool:
    """Returns whether the foreign marker `marker` ended records of the transaction with another outcome than was
    decided. A marker that was written before the transaction began ended only older records."""
    return marker.is_commit != decision.is_commit and marker.at_ms >= decision.start_ms


def _is_own(decision: Decision, marker: SeenMarker) -> bool:
    return (decision.producer_epoch, decision.is_commit) == (marker.producer_epoch, marker.is_commit)


def _is_timely(decisions: Sequence[Decision], at: int, marker: SeenMarker) -> bool:
    """Returns whether the marker was written, by the clocks, between the decision and the beginning of the id's next
    transaction. An id begins a transaction only after the markers of its previous transaction are written."""
    next_ms = decisions[at + 1].start_ms if at + 1 < len(decisions) else marker.at_ms
    return decisions[at].at_ms - CLOSE_MS <= marker.at_ms <= next_ms + CLOSE_MS


def _plainly(
    decisions: Sequence[Decision], markers: Sequence[SeenMarker], closed: frozenset[Decision]
) -> Explained | None:
    """Explains the markers if each decision has one marker, and all further markers ended nothing. Returns None if a
    marker that ended records, or a closed decision, stays unexplained."""
    own: dict[Decision, SeenMarker] = {}
    at = 0
    for marker, after in pairwise([*markers, None]):
        assert marker is not None
        expected = decisions[at] if at < len(decisions) else None
        if expected is not None and _is_own(expected, marker):
            is_empty = marker.ends_from < 0
            is_repeated = after is not None and after.ends_from >= 0 and _is_own(expected, after)
            if is_empty and (expected not in closed or is_repeated):
                continue  # perhaps a repetition of an earlier marker
            own[expected] = marker
            at += 1
        elif marker.ends_from >= 0:
            return None
    if any(decision in closed for decision in decisions[at:]):
        return None
    return Explained(own, frozenset(), frozenset())


class _History(NamedTuple):
    """One way in which the markers may have come about. `at`: the number of decisions passed so far. `foreign`: markers
    that no decision explains, each with the decision whose records it ended; `skipped`: decisions without a marker."""

    cost: int
    at: int
    own: tuple[tuple[Decision, SeenMarker], ...] = ()
    foreign: frozenset[tuple[Decision, SeenMarker]] = frozenset()
    skipped: tuple[Decision, ...] = ()


def _cheapest(
    decisions: Sequence[Decision], markers: Sequence[SeenMarker], closed: frozenset[Decision], untimely: int
) -> list[_History]:
    """Returns the histories with the lowest cost, at most _MOST_HISTORIES. `untimely`: the cost of a marker whose time
    does not fit its decision (`_is_timely`)."""
    states: dict[int, list[_History]] = {0: [_History(0, 0)]}
    for marker in markers:
        following: dict[int, list[_History]] = {}
        for history in (each for some in states.values() for each in some):
            for each in _steps(history, marker, decisions, closed, untimely):
                _keep(following.setdefault(each.at, []), each)
        states = following
    ended: list[_History] = []
    for history in (each for some in states.values() for each in some):
        missing = tuple(decision for decision in decisions[history.at :] if decision in closed)
        cost = history.cost + (_MISSING if missing else 0)
        _keep(ended, history._replace(cost=cost, at=0, skipped=(*history.skipped, *missing)))
    return ended


def _steps(
    history: _History, marker: SeenMarker, decisions: Sequence[Decision], closed: frozenset[Decision], untimely: int
) -> Iterable[_History]:
    at, is_empty = history.at, marker.ends_from < 0
    if is_empty:
        yield history
    elif at < len(decisions):
        decision = decisions[at]
        foreign = history.foreign | {(decision, marker)}
        yield history._replace(cost=history.cost + _FOREIGN, foreign=foreign)
        if decision in closed and not _is_own(decision, marker) and decision.producer_epoch == marker.producer_epoch:
            yield history._replace(cost=history.cost + _IN_PLACE, foreign=foreign, at=at + 1)
    else:
        yield history._replace(cost=history.cost + _UNDECIDED)
    for next_at in range(at, len(decisions)):
        decision = decisions[next_at]
        if _is_own(decision, marker) and (decision in closed or not is_empty):
            skipped = tuple(decisions[at:next_at])
            extra = 0 if _is_timely(decisions, next_at, marker) else untimely
            yield history._replace(
                cost=history.cost + (_MISSING if skipped else 0) + extra,
                at=next_at + 1,
                own=(*history.own, (decision, marker)),
                skipped=(*history.skipped, *skipped),
            )


def _keep(some: list[_History], new: _History) -> None:
    """Adds `new` to `some`, the histories with the lowest cost so far. If `new` costs more, nothing is added; if `new`
    costs less, `new` replaces them all. A marker may be repeated, so that two histories differ only in which of the
    repetitions they take as a decision's own marker. Of two such histories, the one with the earlier markers is kept.
    At most _MOST_HISTORIES are kept."""
    if some and some[0].cost < new.cost:
        return
    if some and some[0].cost > new.cost:
        some.clear()
    for n, other in enumerate(some):
        if (other.foreign, other.skipped, len(other.own)) == (new.foreign, new.skipped, len(new.own)):
            some[n] = min(other, new, key=lambda history: [marker.offset for _, marker in history.own])
            return
    if len(some) < _MOST_HISTORIES:
        some.append(new)
