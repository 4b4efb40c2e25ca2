"""Decides when an event can be reported: once every record that could change its report has been read.

The events of one outage reach the judge in pieces, because of micro-batches, several log partitions, or a restart in
between. The pieces depend on the machine, and not on the cluster. So findings must not depend on the pieces: a slow
machine must report the same as a fast one, only later. Three rules ensure this.

1. The subject of a finding about an event (a burst of timeouts, an id, or the prefix of an id) depends only on the
   event's neighbours in time: on the events from 15 minutes before the event to `gap_ms` after it, by the times in the
   log. For a timeout, this period is up to TOGETHER_MS longer if further timeouts follow. The subject never depends on
   which events one round happens to have.
2. An event is reported when all partitions of the log have been read past this period, so that no later event can
   change the subject. So no event is counted under one subject and later again under another subject. The only
   exception is an event that has waited for LONGEST_MS.
3. A burst is reported at once when it has five ids, because no later event can undo it. The finding remembers the
   timeouts that may still join a burst, and counts them if they join.

Churn does not depend on events alone, but also on whether an id is used again within `churn.UNUSED_MS` after a newer id
appeared. A judge that reads the log late also sees later uses. So such a judge may find less churn than a judge that
keeps up with the log, but never more.

The alternative is to open a finding for the first timeouts and to withdraw the finding when the burst becomes visible.
The alternative would report two outages where there is one, and notifications that were sent could not be corrected.
The price of waiting is small: a single timeout is over before it is read, and is reported some 16 seconds later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.findings.context import Context
from service.domain.findings.events import Event

TOGETHER_MS: Final = 60_000
"""Timeouts within this time may have the same cause. They do not all come at the same moment, because transactions
start at different times, and the coordinator scans every 10 s."""

SKEW_MS: Final = 1_000
"""Allowance for the difference between the clocks of brokers, and between our clock and theirs."""

LONGEST_MS: Final = 5 * 60_000
"""Longest wait (ms) before an event is reported. Without this bound, a partition that always lags would delay the
events of all other partitions for ever."""


def gap_ms(context: Context) -> int:
    """Returns the longest time (ms) from one timeout of an outage to the next: the coordinators' scan interval plus 5 s
    for writing the aborts, and at least 15 s. Two successive scans find all timeouts of an outage."""
    return max(15_000, context.log.limits.scan_ms + 5_000)


class Settling(NamedTuple):
    """Times that decide whether an event can be reported. `settled_ms`: as in `KnownLog`; `read_ms`: a mapping from an
    event's sequence number to the time at which the event was read; `begun_ms`: the time at which this judge began to
    watch."""

    settled_ms: int | None
    read_ms: Mapping[int, int]
    begun_ms: int
    now_ms: int

    def is_past(self, event: Event, after_ms: int) -> bool:
        """Returns whether the log is known up to `after_ms` after the event, or the event has waited for LONGEST_MS.

        The time of the event is the time at which it was read; if this time is not known, its time in the log. The time
        of reading comes from the same clock as `settled_ms`, and is later than the append even if the coordinator's
        clock is wrong."""
        read_ms = min(self.read_ms.get(event.sequence, event.at_ms), self.now_ms)
        if self.settled_ms is not None and self.settled_ms >= read_ms + after_ms:
            return True
        return self.now_ms - max(read_ms, self.begun_ms) >= LONGEST_MS


def first_unsettled(events: Iterable[Event], settling: Settling, after_ms: int) -> int | None:
    """Returns the lowest sequence number of an event that has to wait; None if no event has to wait.

    All later events have to wait as well, because occurrences are counted in the order of their sequence numbers.
    """
    after_ms += SKEW_MS
    return min((e.sequence for e in events if not settling.is_past(e, after_ms)), default=None)


def first_unsettled_timeout(
    timeouts: Iterable[Event], single: Iterable[Event], settling: Settling, context: Context
) -> int | None:
    """Returns the lowest sequence number of a timeout in `single` (timeouts in no burst so far) that has to wait; None
    if no timeout has to wait.

    A timeout waits until `gap_ms` have passed without a further timeout. The wait ends TOGETHER_MS plus `gap_ms` after
    the timeout at the latest, because only timeouts within TOGETHER_MS form a burst."""
    after_ms = gap_ms(context)
    growing: set[int] = set()
    later: Event | None = None
    for event in sorted(timeouts, key=lambda e: (-e.at_ms, -e.sequence)):
        follows = later is not None and later.at_ms - event.at_ms <= after_ms and later.sequence in growing
        if follows or not settling.is_past(event, after_ms + SKEW_MS):
            growing.add(event.sequence)
        later = event
    return first_unsettled((e for e in single if e.sequence in growing), settling, TOGETHER_MS + after_ms)
