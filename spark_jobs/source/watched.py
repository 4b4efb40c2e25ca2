"""Holds one watched partition: its newest sample, the samples that show when its records were written, and the time at
which its stall began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from service.domain.partitions.facts import PartitionEnds, PartitionObservation, StallClock
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import DESCRIBE, ErrorAnswer, NewLeader, NoLeader, NoPermission, UnresponsiveBroker
from service.domain.worlds.order import LogEnd, Sample, encode
from service.kafka import errors
from service.kafka.cluster import Leader
from service.kafka.ends import Ends

LogEnds = Mapping[int, LogEnd]

_ROUNDS: Final = 64
"""Number of rounds (16 s) for which the ends of the transaction log are remembered."""
_BEFORE: Final = 2
"""Number of stretches that are kept before the newest `Stretch`. Two are kept, so that the oldest one was always over
before `ends_before_last` was requested. So if a transaction ended after this request, its markers are at or above the
high watermark of the oldest stretch."""
_MAX_CLOSED: Final = 16
_SELECTED_FIRST: Final = 5
_SELECTED_LAST: Final = 3
_NOTHING: Final[LogEnds] = MappingProxyType({})


class Rounds:
    """Numbers the rounds, and remembers the ends of the transaction log for the newest rounds. A round has no ends if
    it failed, or if the transaction log was not known."""

    def __init__(self) -> None:
        self.number = 0
        self.newest: LogEnds = _NOTHING
        self._ends: dict[int, LogEnds] = {}

    def begin(self) -> None:
        self.number += 1

    def set_ends(self, ends: LogEnds) -> None:
        """Stores the ends of the transaction log that the newest round received."""
        self._ends[self.number] = self.newest = ends
        if len(self._ends) > _ROUNDS:
            del self._ends[next(iter(self._ends))]

    def before(self, number: int) -> tuple[int, LogEnds]:
        """Returns the newest ends received before round `number` began, as (number of the round that requested the
        ends, the ends). Returns (0, no ends) if no such ends are remembered."""
        return next(((end, self._ends[end]) for end in reversed(self._ends) if end < number), (0, _NOTHING))

    def after(self, number: int) -> Iterable[LogEnds]:
        """Yields the ends requested after round `number` was over, oldest first, as far as they are still
        remembered."""
        return (ends for one, ends in self._ends.items() if one > number)


@dataclass(slots=True)
class Stretch:
    """The rounds `first` to `last`, in all of which the partition's leader, with the same leader epoch, reported the
    same high watermark.

    `after`: a mapping from partition of the transaction log to the oldest end requested after round `first` was over.
    `before`: if the leader did not answer the round after `last`, the newest ends received before round `last` began,
    in the form of `Rounds.before`; otherwise None. `after` and `before` keep these ends, because `Rounds` forgets them
    if a transaction stays open for long, or a leader does not answer for long.
    """

    high_watermark: int
    leader_epoch: int
    first: int
    last: int
    after: LogEnds = field(default_factory=dict)
    before: tuple[int, LogEnds] | None = None

    def note_ends(self, rounds: Rounds) -> None:
        """Adds to `after` the ends of partitions that are not in `after` yet. Once `after` has any ends, only the
        newest round can contribute, because all earlier rounds were added already."""
        for ends in (rounds.newest,) if self.after else rounds.after(self.first):
            if not ends.keys() <= self.after.keys():
                self.after = {**ends, **self.after}


@dataclass(slots=True)
class Samples:
    """The samples of one partition. The last of `stretches` may still grow; before it, _BEFORE older stretches are
    kept. `_closed`: samples of ended stretches, kept only while a transaction is open on the partition."""

    stretches: list[Stretch] = field(default_factory=list)
    _closed: list[Sample] = field(default_factory=list)

    def add_round(self, rounds: Rounds, high_watermark: int, leader_epoch: int, last_stable_offset: int) -> None:
        """Adds the leader's answer in the newest of `rounds`."""
        newest = self.stretches[-1] if self.stretches else None
        if newest is None or (newest.high_watermark, newest.leader_epoch) != (high_watermark, leader_epoch):
            if last_stable_offset < high_watermark:
                self._close_stretches(rounds)
            self.stretches.append(Stretch(high_watermark, leader_epoch, rounds.number, rounds.number))
            del self.stretches[: -1 - _BEFORE]
        self.stretches[-1].last, self.stretches[-1].before = rounds.number, None
        if last_stable_offset >= high_watermark:
            self._closed.clear()
            return
        self.stretches[-1].note_ends(rounds)
        if self._closed:
            del self._closed[: _first_relevant(self._closed, last_stable_offset)]
            if len(self._closed) > _MAX_CLOSED:
                del self._closed[_SELECTED_FIRST:-_SELECTED_LAST:2]

    def add_missed_round(self, rounds: Rounds) -> None:
        """Notes that the leader did not answer in this round."""
        if self.stretches:
            newest = self.stretches[-1]
            newest.note_ends(rounds)
            if newest.before is None:
                newest.before = rounds.before(newest.last)

    def selected(self, rounds: Rounds, last_stable_offset: int) -> tuple[Sample, ...]:
        """Returns the samples that best show when the records from the LSO on were written."""
        all_ = [*self._closed, _sample(rounds, self.stretches)] if self.stretches else self._closed
        chosen = all_[_first_relevant(all_, last_stable_offset) :]
        is_short = len(chosen) <= _SELECTED_FIRST + _SELECTED_LAST
        return tuple(chosen if is_short else [*chosen[:_SELECTED_FIRST], *chosen[-_SELECTED_LAST:]])

    def _close_stretches(self, rounds: Rounds) -> None:
        """Keeps the sample of the newest stretch. Also keeps the samples of the stretches before it if no sample is
        kept yet."""
        number = len(self.stretches)
        first = number - 1 if self._closed else 0
        self._closed += [_sample(rounds, self.stretches[: n + 1]) for n in range(first, number)]


def _first_relevant(samples: Sequence[Sample], last_stable_offset: int) -> int:
    """Returns the index of the first sample to keep: _BEFORE places before the newest sample whose high watermark is
    not above the LSO."""
    older = [i for i, sample in enumerate(samples) if sample.high_watermark <= last_stable_offset]
    return max(older[-1] - _BEFORE, 0) if older else 0


def _sample(rounds: Rounds, stretches: Sequence[Stretch]) -> Sample:
    """Returns the sample of the last stretch. Its `earlier_high_watermark` was observed in a round that was over before
    `ends_before_last` was requested."""
    one = stretches[-1]
    one.note_ends(rounds)
    requested_in, ends_before = one.before or rounds.before(one.last)
    known = (earlier.high_watermark for earlier in reversed(stretches) if earlier.first < requested_in)
    return Sample(one.high_watermark, one.leader_epoch, next(known, 0), ends_before, one.after)


STALL_MS: Final = 200
"""A partition is stalled once its LSO has stayed at one offset, below the high watermark, for this time (ms). The time
is a bit shorter than the pause between two samples, so that two samples in a row suffice."""
MOVING_EVERY_MS: Final = 5_000
"""Time (ms) between two reports of a busy partition, whose transactions come and go."""
_MISSES: Final = 2
"""Number of samples in a row without an answer after which the partition counts as unresponsive. If its leader only
moved, the second sample gets an answer."""


def is_over(since_ms: int, period_ms: int, now_ms: int) -> bool:
    """Returns True if `period_ms` or more have passed since `since_ms`, or if the machine's clock was set back
    meanwhile. Without the second rule, a wait would last until the clock has caught up."""
    return not 0 <= now_ms - since_ms < period_ms


class Urgency(IntEnum):
    """The urgency with which a partition is to be reported."""

    NONE = 0
    LATER = 1
    NEXT = 2  # with the next micro-batch, which comes within a second
    NOW = 3  # worth a micro-batch of its own


_ends_of: Final = attrgetter(*PartitionEnds._fields)


@dataclass(slots=True)
class WatchedPartition:
    """A watched partition. `ends`: the offsets in its leader's last answer. `since_ms`: the time since which the LSO
    has been at its present offset, below the high watermark. `since_ms` is kept when the leader does not answer, and
    (by `StallClock`) when the application restarts.

    `why`: the reason for which the partition cannot be sampled. `reported`: the newest observation that was reported.
    `read_at_ms`, `read_lso`: time and LSO of the last read.
    """

    ends: PartitionEnds
    seen_at_ms: int = 0
    since_ms: int | None = None
    samples: Samples = field(default_factory=Samples)
    stored_samples: str | None = None
    misses: int = 0
    why: Reason | None = None
    reported: PartitionObservation | None = None
    read_at_ms: int = 0
    read_lso: int = -1

    def restore(self, clock: StallClock, now_ms: int) -> None:
        """Restores a stall that began before this process started. The stall continues if the next answer has the same
        LSO."""
        if clock.topic_id == self.ends.topic_id:
            self.ends = self.ends._replace(last_stable_offset=clock.last_stable_offset)
            self.since_ms = min(clock.stalled_since_ms, now_ms)
            self.stored_samples = clock.samples

    def note_leader(self, leader: Leader) -> None:
        self.ends = self.ends._replace(leader=leader.node, leader_epoch=leader.epoch)

    def note_answer(self, ends: Ends, asked_at_ms: int, rounds: Rounds) -> None:
        """Applies the leader's answer of a round. `ends.log_start` is -1 if it was not requested."""
        lso, high_watermark = ends.last_stable_offset, ends.high_watermark
        self.samples.add_round(rounds, high_watermark, self.ends.leader_epoch, lso)
        if lso >= high_watermark:
            self.since_ms = self.stored_samples = None
        elif self.since_ms is None or lso != self.ends.last_stable_offset or self.since_ms > asked_at_ms:
            self.since_ms, self.stored_samples = asked_at_ms, None
        log_start = ends.log_start if ends.log_start >= 0 else self.ends.log_start
        self.ends = PartitionEnds(*self.ends[:5], log_start, lso, high_watermark)
        self.seen_at_ms, self.misses, self.why = asked_at_ms, 0, None

    def reason_for(self, error: int) -> Reason:
        """Returns the reason for the error code `error` of the partition's leader."""
        broker = self.ends.leader
        if error == errors.TOPIC_AUTHORIZATION_FAILED:
            return NoPermission(self.ends.topic, (DESCRIBE,))
        if broker < 0:
            return NoLeader()
        if error == errors.LEADER_NOT_AVAILABLE:
            return UnresponsiveBroker(broker)
        if error == errors.OFFSET_NOT_AVAILABLE:
            return NewLeader(broker)
        return ErrorAnswer(broker, "", error)

    def note_miss(self, why: Reason, rounds: Rounds) -> None:
        """Notes a round without an answer. A single such round is ignored if the partition has answered before."""
        self.samples.add_missed_round(rounds)
        self.misses += 1
        if self.misses >= _MISSES or not self.seen_at_ms:
            self.why = why

    @property
    def stalled_since_ms(self) -> int | None:
        """The time at which the stall began; None until the LSO was observed at one offset for STALL_MS."""
        return self.since_ms if self.since_ms is not None and self.seen_at_ms - self.since_ms >= STALL_MS else None

    def urgency(self, now_ms: int) -> Urgency:
        """Returns the urgency of the changes since `reported`. A change of a field that is not compared here is
        reported only together with another change, or with the report of all partitions."""
        reported = self.reported
        if reported is None:
            return Urgency.NEXT
        if self.why != reported.why:
            return Urgency.NOW
        if self.why is not None:
            return Urgency.NONE
        since = self.stalled_since_ms
        if since != reported.stalled_since_ms:
            return Urgency.NOW
        ends = self.ends
        if reported.last_stable_offset == ends.last_stable_offset and _ends_of(reported) == ends:
            return Urgency.NONE
        return (
            Urgency.NEXT
            if since is not None or is_over(reported.observed_at_ms, MOVING_EVERY_MS, now_ms)
            else Urgency.LATER
        )

    def observation(self, now_ms: int, rounds: Rounds, *, is_gone: bool = False) -> PartitionObservation:
        """Returns the observation to report. If the partition does not answer, the offsets are -1, and the stall
        continues."""
        is_known = self.why is None and not is_gone
        ends = self.ends if is_known else PartitionEnds(*self.ends[:5])
        return PartitionObservation(
            *ends,
            observed_at_ms=self.seen_at_ms if is_known else now_ms,
            stalled_since_ms=None if is_gone else self.stalled_since_ms,
            why=None if is_gone else self.why,
            is_gone=is_gone,
            samples=self._encoded_samples(rounds) if is_known and self.stalled_since_ms is not None else None,
        )

    def _encoded_samples(self, rounds: Rounds) -> str:
        """Returns the samples, encoded. If the stall began before a restart, these are the samples stored before the
        restart."""
        return self.stored_samples or encode(self.samples.selected(rounds, self.ends.last_stable_offset))
