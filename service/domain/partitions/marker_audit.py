"""Compares the markers of a producer id on tailed partitions with what its coordinator decided. Pure.

Every marker given here lies below a position that was stored before the transaction log was read to its end. So if a
marker carries out a decision of a coordinator, that decision is known.

A decision is *closed* on a partition if all its markers on the partition are known, or if no more of them can become
known. All markers of a decision are known after three steps: the CompleteX of its transaction, or a later record of the
id, is read; then the end of the partition is requested; then the partition is read to this end.

A marker that ended no record is never a contradiction: coordinators write the same marker again after a failover. If
the cheapest histories that explain the markers (`marker_histories`) disagree about a transaction, the transaction is
not reported as torn.

Records that were deleted with their topic count as lost records of a committed transaction only if two facts are
proven. First, the records belong to the transaction: they were read behind the last marker of their producer id, and
the markers of all earlier transactions of this producer id lie in front of the records. Second, the transaction was
decided after the deletion had been seen, so its own marker was not deleted unread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.marker_histories import Contradiction, Decision, Explained, SeenMarker, explain


class Result(Enum):
    """The outcome of the comparison of one transaction. WHOLE: its marker was read on each of its partitions. TORN: a
    marker or deleted records contradict the decision. UNSEEN: neither WHOLE nor TORN is proven."""

    WHOLE = "whole"
    TORN = "torn"
    UNSEEN = "unseen"


class UnendedRecords(NamedTuple):
    """Records of a producer id behind its last marker, as far as the log was read. `from_offset`: the offset of the
    first of them; `seen_at_ms`: when that record was stored, by our clock."""

    producer_id: int
    from_offset: int
    seen_at_ms: int


class EndedLog(NamedTuple):
    """The log of a tailed partition, as far as the log was read before its topic `topic_id` was deleted. The topic may
    have been created again since. `seen_at_ms`: when the deletion became known, by our clock; `markers`: the markers
    that are not compared yet."""

    topic: str
    partition: int
    topic_id: str
    seen_at_ms: int
    markers: tuple[SeenMarker, ...]
    unended: tuple[UnendedRecords, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


class GoneRecords(NamedTuple):
    """Records of the committed transaction `decision`, from `from_offset` on, that were deleted with their topic before
    the decision."""

    decision: Decision
    topic: str
    partition: int
    from_offset: int
    seen_at_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


class Compared(NamedTuple):
    """The result of comparing the markers of a producer id with its decisions.

    - `results`: the results for the oldest decisions, as far as they can be judged now; no later batch changes these
      results.
    - `contradictions`, `gone`: the markers and the lost records that make decisions torn.
    - `own`: a mapping from decision to the markers that carry it out.
    - `used`: the markers that need not be kept any longer.
    - `ownerless`: partitions on which a decision in `results` has no marker of its own. On such a partition, records
      that no marker ended may belong to the decision's transaction.
    - `passed`: partitions on which a decision in `results` has no marker in an EndedLog. The EndedLogs of these
      partitions need not keep their unended records.
    """

    results: tuple[tuple[Decision, Result], ...]
    contradictions: tuple[Contradiction, ...]
    gone: tuple[GoneRecords, ...]
    own: Mapping[Decision, tuple[SeenMarker, ...]]
    used: tuple[SeenMarker, ...]
    ownerless: frozenset[TopicPartition]
    passed: frozenset[TopicPartition]


class _Past(NamedTuple):
    """The result of matching the ended logs of a partition with decisions. `own`: a mapping from decision to its marker
    on the partition; `unclear`: decisions for which the logs prove nothing; `later`: decisions that were made after
    these logs had ended."""

    own: dict[Decision, SeenMarker]
    gone: list[GoneRecords]
    unclear: set[Decision]
    later: list[Decision]


def compare(
    decisions: Sequence[Decision],
    markers: Iterable[SeenMarker],
    closed: Mapping[Decision, frozenset[TopicPartition]],
    ended: Mapping[TopicPartition, Sequence[EndedLog]] = {},
) -> Compared:
    """Compares the decisions of one producer id with its markers. Decisions are in the order of the transaction log,
    markers in any order. `closed`: a mapping from decision to the partitions on which it is closed; `ended`: a mapping
    from partition to its logs that ended before the transaction log was read to its end."""
    after_ms = _once(decisions)
    decisions = list(after_ms)
    by_place: dict[TopicPartition, list[SeenMarker]] = {}
    for marker in sorted(markers, key=lambda marker: (marker.topic, marker.partition, marker.offset)):
        by_place.setdefault(marker.topic_partition, []).append(marker)
    places = sorted({place for one in decisions for place in one.participants})
    past = {
        place: _past(
            {one: ms for one, ms in after_ms.items() if place in one.participants},
            ended.get(place, ()),
        )
        for place in places
    }
    explained = {
        place: explain(
            past[place].later,
            by_place.get(place, []),
            frozenset(one for one in decisions if place in closed.get(one, ())),
        )
        for place in places
    }
    results: list[tuple[Decision, Result]] = []
    for decision in decisions:  # the oldest first, because an id has one transaction at a time
        if not frozenset(decision.participants) <= closed.get(decision, frozenset()):
            break
        results.append((decision, _result(decision, explained, past)))
    settled = {one for one, _ in results}
    torn = {one for one, result in results if result is Result.TORN}
    contradictions = [each for found in explained.values() for each in found.contradictions if each.decision in torn]
    used = [
        marker
        for place, of_place in by_place.items()
        for marker in _used(of_place, explained.get(place), decisions, settled, place)
    ]
    return Compared(
        tuple(results),
        tuple(sorted(contradictions, key=lambda each: each.marker)),
        tuple(each for place in places for each in past[place].gone if each.decision in torn),
        {one: tuple(_own(one, explained, past)) for one in settled},
        tuple(sorted(used)),
        frozenset(p for p in places if any(_lacks(one, p, explained[p], past[p]) for one in settled)),
        frozenset(p for one in settled for p in one.participants if one not in past[p].own),
    )


def _once(decisions: Sequence[Decision]) -> dict[Decision, int]:
    """Returns each decision with its `after_ms`. If the record of a decision was appended again, the last record is
    returned, with the `after_ms` of the first."""
    found: dict[Decision, int] = {}
    last: Decision | None = None
    for decision in sorted(decisions, key=lambda one: one.offset):
        is_again = last is not None and last.end == decision.end
        found[decision] = found.pop(last) if last is not None and is_again else decision.after_ms
        last = decision
    return found


def _past(after_ms: Mapping[Decision, int], logs: Sequence[EndedLog]) -> _Past:
    """Matches the ended logs of one partition with the decisions that list the partition. `after_ms`: a mapping from
    decision, in the order of the transaction log, to a time at which the decision was not made yet."""
    past = _Past({}, [], set(), list(after_ms))
    for log in sorted(logs, key=lambda log: log.seen_at_ms):
        made = next(
            (n for n, decision in enumerate(past.later) if after_ms[decision] > log.seen_at_ms), len(past.later)
        )
        before = past.later[:made]
        del past.later[:made]
        if not (before or past.later):
            break
        producer_id = (before or past.later)[0].producer_id
        found = explain(
            before, [marker for marker in log.markers if marker.producer_id == producer_id], frozenset(before)
        )
        known = {decision: marker for decision, marker in found.own.items() if decision not in found.unclear}
        past.own.update(known)
        past.unclear.update(decision for decision in before if decision not in known)
        records = next((records for records in log.unended if records.producer_id == producer_id), None)
        if records is None or not past.later:
            continue
        first = past.later[0]
        if len(known) < len(before) or records.seen_at_ms < first.start_ms:
            past.unclear.add(first)  # the records may be of an earlier transaction
        elif first.is_commit:
            past.gone.append(GoneRecords(first, *log.topic_partition, records.from_offset, log.seen_at_ms))
    return past


def _result(
    decision: Decision, explained: Mapping[TopicPartition, Explained], past: Mapping[TopicPartition, _Past]
) -> Result:
    is_contradicted = any(
        each.decision == decision for place in decision.participants for each in explained[place].contradictions
    )
    if is_contradicted or any(
        each.decision == decision for place in decision.participants for each in past[place].gone
    ):
        return Result.TORN
    is_seen = bool(decision.participants) and not any(
        _lacks(decision, place, explained[place], past[place]) for place in decision.participants
    )
    return Result.WHOLE if is_seen and not decision.untailed else Result.UNSEEN


def _lacks(decision: Decision, place: TopicPartition, found: Explained, past: _Past) -> bool:
    """Returns whether the decision lists the partition, and no marker there is known to carry it out."""
    if place not in decision.participants or decision in past.own:
        return False
    return decision in past.unclear or decision in found.unclear or decision not in found.own


def _own(
    decision: Decision, explained: Mapping[TopicPartition, Explained], past: Mapping[TopicPartition, _Past]
) -> Iterable[SeenMarker]:
    for place in decision.participants:
        marker = past[place].own.get(decision) or explained[place].own.get(decision)
        if marker is not None:
            yield marker


def _used(
    markers: Sequence[SeenMarker],
    found: Explained | None,
    decisions: Sequence[Decision],
    settled: set[Decision],
    place: TopicPartition,
) -> Iterable[SeenMarker]:
    """Yields the markers that need not be kept: all markers up to the last marker of a settled decision, and the later
    markers that cannot matter to an unsettled decision or to one that is not known yet."""
    theirs = [] if found is None else [found.own[decision].offset for decision in settled if decision in found.own]
    foreign = () if found is None else found.contradictions
    done = max([*theirs, *(each.marker.offset for each in foreign if each.decision in settled)], default=-1)
    settled_ms = max((decision.at_ms for decision in settled if place in decision.participants), default=None)
    left = {
        (decision.producer_epoch, decision.is_commit)
        for decision in decisions
        if decision not in settled and place in decision.participants
    }
    for marker in markers:
        is_late = marker.ends_from >= 0 and (settled_ms is None or marker.at_ms >= settled_ms)
        may_matter = is_late or (marker.producer_epoch, marker.is_commit) in left
        if marker.offset <= done or not may_matter:
            yield marker
