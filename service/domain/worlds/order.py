"""Samples of high watermarks, which prove the order of writes without any clock (`facts.EntryRead`).

Several times a second the sampler asks all leaders for high watermarks, also those of the transaction log. The next
round begins only when all answers are in. So every answer of one round was given before the requests of the next round.
The order of rounds also orders appends to the partition and to the transaction log, although their clocks may differ by
seconds.

High watermarks of one leader epoch never go back, and transactional writes are acknowledged (acks=all) once the high
watermark has passed them. The high watermark of a new leader may lag, and that of a former leader does not move. So a
record counts as absent only for the leader epoch that the record itself carries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class LogEnd(NamedTuple):
    """High watermark of a partition of the transaction log, as its leader of epoch `leader_epoch` reported it."""

    offset: int
    leader_epoch: int


class Sample(NamedTuple):
    """Consecutive rounds in which the partition's leader reported the same high watermark.

    - `ends_before_last`: ends of log partitions received before the last of the rounds began.
    - `ends_after_first`: ends of log partitions requested after the first of the rounds was over.
    - `earlier_high_watermark`: a high watermark of the partition received before `ends_before_last` was requested; 0 if
      there is none.
    """

    high_watermark: int
    leader_epoch: int
    earlier_high_watermark: int
    ends_before_last: Mapping[int, LogEnd]
    ends_after_first: Mapping[int, LogEnd]


class AbsenceProof(NamedTuple):
    """A proof that the entry was not acknowledged yet when the transaction log already reached to `log_end`.

    Transactions decided below `log_end` were decided before the entry was written, and transactions completed below
    `log_end` have their markers below `high_watermark`. If the leader that reported `log_end` (`log_leader_epoch`)
    appended a PrepareX at or above `log_end`, the markers of its transaction lie at or above `earlier_high_watermark`.
    A PrepareX of an earlier leader may be older: the high watermark of a new leader may lag behind it.
    """

    log_end: int
    high_watermark: int
    leader_epoch: int
    earlier_high_watermark: int
    log_leader_epoch: int


class LogPosition(NamedTuple):
    """A record of a log partition, and the epoch of the leader that appended it."""

    offset: int
    leader_epoch: int


NO_POSITION: Final = LogPosition(-1, -1)


def encode(samples: Sequence[Sample]) -> str:
    """Returns the samples as text (JSON), for the store."""
    return json.dumps(
        [[*sample[:3], *(_listed(ends) for ends in sample[3:])] for sample in samples], separators=(",", ":")
    )


def decode(text: str | None) -> tuple[Sample, ...]:
    """Returns the samples from the text that `encode` made; an empty tuple if the text is None."""
    return tuple(
        Sample(hw, epoch, earlier_high_watermark, _mapped(ends_before_last), _mapped(ends_after_first))
        for hw, epoch, earlier_high_watermark, ends_before_last, ends_after_first in json.loads(text or "[]")
    )


def _listed(ends: Mapping[int, LogEnd]) -> list[tuple[int, int, int]]:
    return [(p, *end) for p, end in sorted(ends.items())]


def _mapped(ends: Sequence[tuple[int, int, int]]) -> dict[int, LogEnd]:
    return {p: LogEnd(offset, epoch) for p, offset, epoch in ends}
