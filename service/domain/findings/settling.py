"""Decides when an event can be reported: once the log is known past everything that could change how it is reported.

The events of one outage reach the judge in pieces: micro-batches, several log partitions, a restart in between. The
pieces depend on the machine, and not on the cluster. So findings must not depend on the pieces: a slow machine reports
the same as a fast one, only later. Three rules make sure of that.

1. How an event is reported (with a burst of timeouts, under its id, under the prefix of its id) is a function of the
   events in a bounded time around it, by the time in the log: 15 minutes before, and `gap_ms` after (timeouts:
   TOGETHER_MS more, while they keep coming). It is never a function of what one round happens to hold.
2. An event is reported when all partitions of the log have been read past that time, so that no later event can change
   the answer. A finding is therefore never opened under one subject and counted again under another.
3. Only growth is reported at once: the fifth id makes a burst, whatever follows. A finding remembers timeouts that it
   passed over and that may yet join a burst, and counts them if they join.

Churn depends on more than events: on whether an id is used again within `churn.UNUSED_MS` after a newer one was born. A
judge that reads the log late also sees later uses. So that judge may find less churn than one that keeps up with the
log, but never more.

The alternative is to open a finding for the first timeouts and to withdraw it when the burst becomes visible. That
would report two outages where there is one, and notifications that went out could not be corrected. The price of
waiting is small: a single timeout is over before it is read, and is reported some 16 seconds later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.findings.context import Context
from service.domain.findings.events import Event

TOGETHER_MS: Final = 60_000
"""Timeouts within this time may have one reason: transactions start at different times, and the coordinator scans every
10 s."""

SKEW_MS: Final = 1_000
"""Allowance for the difference between the clocks of brokers, and between our clock and theirs."""

LONGEST_MS: Final = 5 * 60_000
"""Longest wait (ms) before an event is reported. Without this bound, a partition that always lags would delay the
events of all others for ever."""


def gap_ms(context: Context) -> int:
    """Returns the longest time (ms) between two timeouts of one outage: a coordinator's scan interval, plus a few
    seconds for writing the aborts, because two successive scans find all timeouts of an outage. At least 15 s."""
    return max(15_000, context.log.limits.scan_ms + 5_000)


class Settling(NamedTuple):
    """Times that decide whether an event is complete. `settled_ms`: as in `KnownLog`; `read_ms`: by sequence, the time
    at which the event was read; `begun_ms`: the time at which this judge began to watch."""

    settled_ms: int | None
    read_ms: Mapping[int, int]
    begun_ms: int
    now_ms: int

    def is_past(self, event: Event, after_ms: int) -> bool:
        """Returns whether everything that was written until `after_ms` after the event is known, or whether the event
        has waited for LONGEST_MS.

        The time of reading is used if it is known, else the time in the log. The time of reading is of the same clock
        as `settled_ms`, and later than the append even if the coordinator's clock is wrong.
        """
        read_ms = min(self.read_ms.get(event.sequence, event.at_ms), self.now_ms)
        if self.settled_ms is not None and self.settled_ms >= read_ms + after_ms:
            return True
        return self.now_ms - max(read_ms, self.begun_ms) >= LONGEST_MS


def first_unsettled(events: Iterable[Event], settling: Settling, after_ms: int) -> int | None:
    """Returns the lowest sequence of an event that has to wait; None if there is none.

    All later events have to wait as well, because occurrences are counted in the order of their sequences.
    """
    after_ms += SKEW_MS
    return min((e.sequence for e in events if not settling.is_past(e, after_ms)), default=None)


def first_unsettled_timeout(
    timeouts: Iterable[Event], single: Iterable[Event], settling: Settling, context: Context
) -> int | None:
    """Returns the lowest sequence of a timeout that has to wait, among the timeouts that are in no burst so far
    (`single`); None if there is none.

    A timeout cannot join a burst any more if no other timeout follows it within `gap_ms`. Otherwise, only timeouts
    within TOGETHER_MS can form a burst with it, which is settled one gap later.
    """
    after_ms = gap_ms(context)
    growing: set[int] = set()
    later: Event | None = None
    for event in sorted(timeouts, key=lambda e: (-e.at_ms, -e.sequence)):
        follows = later is not None and later.at_ms - event.at_ms <= after_ms and later.sequence in growing
        if follows or not settling.is_past(event, after_ms + SKEW_MS):
            growing.add(event.sequence)
        later = event
    return first_unsettled((e for e in single if e.sequence in growing), settling, TOGETHER_MS + after_ms)
