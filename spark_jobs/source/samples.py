"""Samples of partitions: evidence of when something was written there, for `service.domain.worlds.order`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from service.domain.worlds.order import LogEnd, Sample

LogEnds = Mapping[int, LogEnd]

_ROUNDS: Final = 64
"""Number of rounds for which the ends of the transaction log are remembered: 16 s."""
_BEFORE: Final = 2
"""Number of stretches kept before the newest. Even if every round began a stretch, the markers of a transaction that
ended after `ends_before_last` was requested lie behind the oldest of these."""
_MAX_CLOSED: Final = 16
_SELECTED_FIRST: Final = 5
_SELECTED_LAST: Final = 3
_NOTHING: Final[LogEnds] = MappingProxyType({})


class Rounds:
    """Numbers the rounds, and remembers the ends of the transaction log for the newest of them."""

    def __init__(self) -> None:
        self.number = 0
        self._ends: dict[int, LogEnds] = {}

    def begin(self) -> None:
        self.number += 1

    def set_ends(self, ends: LogEnds) -> None:
        """Takes the ends that this round found."""
        self._ends[self.number] = ends
        self._ends.pop(self.number - _ROUNDS, None)

    def before(self, number: int) -> LogEnds:
        """Returns the newest ends received before round `number` began."""
        return self._first(range(number - 1, self.number - _ROUNDS, -1))

    def after(self, number: int) -> LogEnds:
        """Returns the oldest ends requested after round `number` was over."""
        return self._first(range(max(number, self.number - _ROUNDS) + 1, self.number + 1))

    def _first(self, numbers: Iterable[int]) -> LogEnds:
        return next((self._ends[one] for one in numbers if one in self._ends), _NOTHING)


@dataclass(slots=True)
class Stretch:
    """Rounds `first` to `last`, in which the partition's leader reported one and the same high watermark."""

    high_watermark: int
    leader_epoch: int
    first: int
    last: int


@dataclass(slots=True)
class Samples:
    """The samples of one partition. The last of `stretches` goes on; _BEFORE older ones are kept. `_closed`: samples of
    stretches that are over, kept only while a transaction is open on the partition."""

    stretches: list[Stretch] = field(default_factory=list)
    _closed: list[Sample] = field(default_factory=list)

    def add_round(self, rounds: Rounds, high_watermark: int, leader_epoch: int, last_stable_offset: int) -> None:
        """Takes what this round found."""
        newest = self.stretches[-1] if self.stretches else None
        if newest is None or (newest.high_watermark, newest.leader_epoch) != (high_watermark, leader_epoch):
            if last_stable_offset < high_watermark:
                self._close_stretches(rounds)
            self.stretches.append(Stretch(high_watermark, leader_epoch, rounds.number, rounds.number))
            del self.stretches[: -1 - _BEFORE]
        self.stretches[-1].last = rounds.number
        if last_stable_offset >= high_watermark:
            self._closed.clear()
        elif self._closed:
            del self._closed[: _first_relevant(self._closed, last_stable_offset)]
            if len(self._closed) > _MAX_CLOSED:
                del self._closed[_SELECTED_FIRST:-_SELECTED_LAST:2]

    def selected(self, rounds: Rounds, last_stable_offset: int) -> tuple[Sample, ...]:
        """Returns the samples that prove most about the records from the LSO on."""
        all_ = [*self._closed, _sample(rounds, self.stretches)] if self.stretches else self._closed
        chosen = all_[_first_relevant(all_, last_stable_offset) :]
        is_short = len(chosen) <= _SELECTED_FIRST + _SELECTED_LAST
        return tuple(chosen if is_short else [*chosen[:_SELECTED_FIRST], *chosen[-_SELECTED_LAST:]])

    def _close_stretches(self, rounds: Rounds) -> None:
        """Keeps the sample of the newest stretch, and of those before it if nothing is kept yet."""
        number = len(self.stretches)
        first = number - 1 if self._closed else 0
        self._closed += [_sample(rounds, self.stretches[: n + 1]) for n in range(first, number)]


def _first_relevant(samples: Sequence[Sample], last_stable_offset: int) -> int:
    """Returns the index of the sample that is _BEFORE places before the newest one without the record at the LSO."""
    older = [i for i, one in enumerate(samples) if one.high_watermark <= last_stable_offset]
    return max(older[-1] - _BEFORE, 0) if older else 0


def _sample(rounds: Rounds, stretches: Sequence[Stretch]) -> Sample:
    """Returns the sample of the last stretch. Its `earlier_high_watermark` comes from a round that was over before the
    transaction log's end in `ends_before_last` was requested."""
    one = stretches[-1]
    known = (earlier.high_watermark for earlier in reversed(stretches) if earlier.first < one.last - 1)
    until, since = rounds.before(one.last), rounds.after(one.first)
    return Sample(one.high_watermark, one.leader_epoch, next(known, 0), until, since)
