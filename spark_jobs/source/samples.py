"""What the sampler's rounds prove about when something was written to a partition: `service.domain.worlds.order`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from service.domain.worlds.order import LogEnd, Sample

LogEnds = Mapping[int, LogEnd]

_ROUNDS: Final = 64
"""Rounds whose log ends are remembered: 16 s."""
_KEPT: Final = 16
_TOLD: Final = 6
_NOTHING: Final[LogEnds] = MappingProxyType({})


class Rounds:
    """Numbers the rounds, and remembers the ends of the transaction log that the newest of them found."""

    def __init__(self) -> None:
        self.number = 0
        self._ends: dict[int, LogEnds] = {}

    def begin(self) -> None:
        self.number += 1

    def take(self, ends: LogEnds) -> None:
        """What this round found."""
        self._ends[self.number] = ends
        self._ends.pop(self.number - _ROUNDS, None)

    def before(self, number: int) -> LogEnds:
        """Ends received before that round began."""
        return self._first(range(number - 1, self.number - _ROUNDS, -1))

    def after(self, number: int) -> LogEnds:
        """Ends requested after that round was over."""
        return self._first(range(max(number, self.number - _ROUNDS) + 1, self.number + 1))

    def _first(self, numbers: Iterable[int]) -> LogEnds:
        return next((self._ends[one] for one in numbers if one in self._ends), _NOTHING)


@dataclass(slots=True)
class Samples:
    """Of one partition: stretches of rounds with one high watermark under one leader. The newest goes on: from round
    `first` to `last`. What is over is kept only while something is open there: most partitions are busy and free."""

    high_watermark: int = -1
    leader_epoch: int = -1
    first: int = 0
    last: int = 0
    _done: list[Sample] = field(default_factory=list)
    _before: tuple[tuple[int, int], ...] = ()  # high watermark and last round of the two stretches before this one

    def see(self, rounds: Rounds, high_watermark: int, leader_epoch: int, last_stable_offset: int) -> None:
        """What this round found."""
        if (high_watermark, leader_epoch) != (self.high_watermark, self.leader_epoch):
            if self.last and last_stable_offset < high_watermark:
                self._done.append(self._sample(rounds))
            self._before = (*self._before[-1:], (self.high_watermark, self.last))
            self.high_watermark, self.leader_epoch, self.first = high_watermark, leader_epoch, rounds.number
        self.last = rounds.number
        if last_stable_offset >= high_watermark:
            self._done.clear()
        elif self._done:
            del self._done[: self._absent(self._done, last_stable_offset)]
            if len(self._done) > _KEPT:
                del self._done[3:-3:2]

    def told(self, rounds: Rounds, last_stable_offset: int) -> tuple[Sample, ...]:
        """Those that tell most of the records from the LSO on."""
        all_ = [*self._done, self._sample(rounds)] if self.last else self._done
        chosen = all_[self._absent(all_, last_stable_offset) :]
        return tuple(chosen if len(chosen) <= _TOLD else [*chosen[:3], *chosen[3 - _TOLD :]])

    @staticmethod
    def _absent(samples: Sequence[Sample], last_stable_offset: int) -> int:
        """The index of the newest one without the record at the LSO; 0 where there is none."""
        older = [i for i, one in enumerate(samples) if one.high_watermark <= last_stable_offset]
        return older[-1] if older else 0

    def _sample(self, rounds: Rounds) -> Sample:
        until, since = rounds.before(self.last), rounds.after(self.first)
        return Sample(self.high_watermark, self.leader_epoch, self._known_at(), until, since)

    def _known_at(self) -> int:
        """A high watermark of a round that was over before the one before the last began."""
        stretches = [*self._before, (self.high_watermark, self.first)]
        return next((hw for hw, by in reversed(stretches) if 0 < by < self.last - 1), 0)
