"""Findings about ids for which two live producers fence each other in turns.

A restart, a rebalance and a conflict all leave fences in the log, whose records name neither host nor process. Four
signs distinguish them.

- **Who got in**: a fence counts if a producer was let in right after the fence, and had a transaction open at the next
  fence. Three kinds of starts do not count: Empty after Empty (an idle pool of producers; Kafka Connect, which fences
  its own ids before it starts them), a start while nothing was open, and a producer that fences itself (KIP-360).
- **Alive**: a fence counts if the fenced producer had begun its transaction less than ALIVE_MS before the fence, or if
  the new producer has another transaction timeout. After a crash, a process needs longer to start again, and has the
  same timeout.
- **At once**: the fenced producer is back within BACK_WITHIN_MS, or has another timeout. Rebalances are further apart.
- **Alone**: fences of several ids of one application within moments are one restart, rebalance or reconfiguration.

One instance that restarts within ALIVE_MS, over and over, cannot be distinguished from two instances. Two instances
with the same timeout are not found if they need longer to return, or if their transactions are long.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from service.domain.findings.context import Context, with_rule
from service.domain.findings.events import (
    Event,
    Group,
    ReportWindow,
    Whose,
    evidence,
    group_by_subject,
    prefix_of,
)
from service.domain.findings.finding import EVIDENCE_KEPT, Facts, Observation, Occurrence, Words
from service.domain.findings.formatting import duration
from service.domain.findings.kinds import QUIET_MS, Kind, Severity
from service.domain.findings.settling import gap_ms
from service.domain.transaction_log.causes import FOLLOWS_WITHIN_MS, CauseCode, Confidence
from service.domain.transaction_log.states import COMPLETE_ABORT

TAKEOVERS: Final = 3
"""This many takeovers of one run (`_Takeover`) within QUIET_MS, by the log's times, make a conflict. Only takeovers
that show two live producers count."""

ALIVE_MS: Final = 2_000
"""Age (ms) of a transaction below which a fence shows that the fenced producer was alive: a process that crashed takes
longer to start again."""

BACK_WITHIN_MS: Final = 30_000
"""Time (ms) within which a fenced producer comes back and fences the other producer, if two producers alternate
steadily. Longer pauses between takeovers are no alternation, unless the transaction timeouts differ."""

ROUND_MS: Final = 10_000
"""Time (ms) within which one restart or rebalance of an application reaches all its ids."""


SETTLES_WITHIN_MS: Final = ROUND_MS + FOLLOWS_WITHIN_MS
"""Time (ms) after a fence within which later records still decide whether the fence is a takeover, and whether it
belongs to a restart or rebalance of the whole application (`_is_round`)."""


class _Takeover(NamedTuple):
    """A takeover: an open transaction was aborted (`fence`: its PrepareAbort), and another producer was let in
    (`let_in`: its Empty). Takeovers of an id with the same number `run` alternate: each takeover
    fences the producer that the previous one let in, within BACK_WITHIN_MS of the previous fence, or by a producer with
    another transaction timeout."""

    fence: Event
    let_in: Event
    run: int

    @property
    def was_alive(self) -> bool:
        return self.fence.duration_ms is not None and self.fence.duration_ms < ALIVE_MS

    @property
    def has_another_timeout(self) -> bool:
        return self.fence.timeout_ms != self.let_in.timeout_ms

    def is_soon_after(self, earlier: _Takeover) -> bool:
        return self.has_another_timeout or self.fence.at_ms - earlier.fence.at_ms <= BACK_WITHIN_MS


@dataclass(frozen=True, slots=True)
class FencingFacts(Facts):
    whose: Whose

    def words(self, about: Observation, /) -> Words:
        who = "two producers fence" if self.whose.ids == 1 else "producers of the same id fence"
        return Words(
            f"{self.whose.text(about.subject)}: {who} each other in turns, or one producer starts again every few"
            " moments",
            "Transactions were aborted, and right after each abort a producer initialised the same"
            f" transactional.id. It did so less than {duration(ALIVE_MS)} after the aborted transaction began, or with"
            " another transaction timeout. Find the second instance (a forgotten deployment, another environment on the"
            " same cluster, a copied configuration) and stop it, or give it ids of its own. The log does not show"
            " hosts: if there is only one instance, find out why it restarts so fast. Ids that belong to an input"
            " partition or a task have to stay as they are, because the exactly-once guarantee depends on them.",
        )


def takeover_conflicts(events: Iterable[Event]) -> dict[int, tuple[Event, ...]]:
    """Returns a mapping from the sequence of a fence that proves a conflict to the fences to report with that conflict.
    A fence proves a conflict if it is the last of TAKEOVERS or more takeovers of one id, in one run and within
    QUIET_MS. Each fence is reported once, with the first fence that proves a conflict."""
    found = {}
    for takeovers in _contested(events):
        begin = first = 0
        for end, takeover in enumerate(takeovers):
            if takeover.run != takeovers[begin].run:
                begin = first = end
            while takeover.fence.at_ms - takeovers[begin].fence.at_ms > QUIET_MS:
                begin += 1
            if end - begin + 1 >= TAKEOVERS:
                shown = takeovers[max(first, begin) : end + 1]
                found[takeover.fence.sequence] = tuple(takeover.fence for takeover in shown)
                first = end + 1
    return found


def fencing_conflicts(
    found: Mapping[int, tuple[Event, ...]], context: Context, window: ReportWindow
) -> list[Observation]:
    """Returns an observation for each id or prefix with a conflict. `found`: from `takeover_conflicts`."""
    groups = group_by_subject((shown[-1] for shown in found.values()), gap_ms(context), window)
    return [
        _observe(group, [(last, e) for last in group.events for e in found[last.sequence]], context) for group in groups
    ]


def _contested(events: Iterable[Event]) -> Iterator[list[_Takeover]]:
    """Yields, for each id, the takeovers that show two live producers, in the order of the log's times."""
    of_id: dict[bytes, list[Event]] = defaultdict(list)
    for event in events:
        of_id[event.transactional_id].append(event)
    of_prefix: dict[str, dict[bytes, list[_Takeover]]] = defaultdict(dict)
    for one, its_events in of_id.items():
        takeovers = list(_takeovers(sorted(its_events, key=lambda e: (e.at_ms, e.sequence))))
        if takeovers:
            of_prefix[prefix_of(its_events[0].name)][one] = takeovers
    for by_id in of_prefix.values():
        times = sorted(t.fence.at_ms for takeovers in by_id.values() for t in takeovers)
        for takeovers in by_id.values():
            own = [t.fence.at_ms for t in takeovers]
            yield [
                t
                for t in takeovers
                if (t.was_alive or t.has_another_timeout) and not _is_round(t.fence.at_ms, own, times)
            ]


def _takeovers(events: Sequence[Event]) -> Iterator[_Takeover]:
    """Yields the takeovers of one id. `events`: the events of the id, in the order of the log. A fence by an
    administrator is no takeover, because no producer continues under the id."""
    run, newest = 0, None
    for event, following in pairwise(events):
        is_let_in = following.cause == CauseCode.INITIALIZED and following.from_state == COMPLETE_ABORT
        if event.cause == CauseCode.FENCED and is_let_in and following.at_ms - event.at_ms <= FOLLOWS_WITHIN_MS:
            takeover = _Takeover(event, following, run)
            if newest is not None and not takeover.is_soon_after(newest):
                run += 1
            newest = takeover._replace(run=run)
            yield newest
        elif newest is None or event is not newest.let_in:
            run += 1
            newest = None


def _is_round(at_ms: int, own: Sequence[int], all_of_prefix: Sequence[int]) -> bool:
    """Returns whether the takeover at `at_ms` belongs to a restart or rebalance of the whole application: within
    ROUND_MS of this takeover, the id had no other takeover, and other ids of the application had takeovers."""
    alone = _number_near(at_ms, own)
    return alone == 1 and _number_near(at_ms, all_of_prefix) > alone


def _number_near(at_ms: int, times_ms: Sequence[int]) -> int:
    return bisect_right(times_ms, at_ms + ROUND_MS) - bisect_left(times_ms, at_ms - ROUND_MS)


def _observe(group: Group, takeovers: Sequence[tuple[Event, Event]], context: Context) -> Observation:
    """Returns the observation of the conflicts of a group. `takeovers`: pairs (fence that proved a conflict, fence that
    is reported with the conflict). Each fence is counted under the sequence of the proving fence, so that both are
    settled together."""
    return with_rule(
        Observation(
            kind=Kind.FENCING_CONFLICT,
            severity=Severity.WARNING,
            subject=group.subject,
            facts=FencingFacts(group.whose),
            evidence=tuple(evidence(e, _described(e)) for _, e in takeovers[-EVIDENCE_KEPT:]),
            confidence=Confidence.LIKELY,
            log_partition=group.log_partition,
            occurrences=tuple(sorted({Occurrence(shown_by.sequence, e.at_ms) for shown_by, e in takeovers})),
        ),
        context.rules.of(group.whose.name),
    )


def _described(event: Event) -> str:
    opened = "" if event.duration_ms is None else f" {duration(event.duration_ms)} after it began"
    return (
        f"{event.name}: a transaction was aborted{opened}, and a producer was let in ({event.confidence}),"
        f" producer id {event.producer_id}, epoch {event.producer_epoch}"
    )
