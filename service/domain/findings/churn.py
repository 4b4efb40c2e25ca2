"""Applications that make up a new transactional.id at every start: nothing fences what an earlier start left open."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from service.domain import causes
from service.domain.findings import kinds
from service.domain.findings.context import Context, ruled
from service.domain.findings.events import (
    ALL,
    MOST_SUBJECTS,
    Event,
    Told,
    evidence,
    is_of_streams,
    is_random,
    made_up,
    prefix_of,
)
from service.domain.findings.finding import EVIDENCE_KEPT, Observation, Occurrence, Subject
from service.domain.findings.lifecycle import QUIET_MS
from service.domain.findings.words import listed, span
from service.domain.limits import EXPIRATION_CONFIG
from service.domain.minutes import minute_of
from service.domain.states import NEVER_SEEN

RANDOM_IDS: Final = 5
"""So many new ids of one prefix in 15 minutes whose ends look made up; those of one process (Kafka Streams) are one."""

START_MS: Final = 10_000
STARTS: Final = 3
"""The ids are born in at least so many spans of START_MS: what is born at once belongs to one start."""

COUNTED_IDS: Final = 20
COUNTED_MINUTES: Final = 5
"""New ids with plain numbers are a deployment, unless they keep coming: so many, in so many different minutes."""

_FOR_STREAMS: Final = (
    "Keep state.dir of this Kafka Streams application on a disk that outlives its process: the process id in its"
    " transactional ids is stored there."
)
_FOR_OTHERS: Final = "Give each instance a transactional.id that stays the same over restarts."

T = TypeVar("T")


class _Born(NamedTuple):
    """The new ids of a prefix: those of times that had too many, and the times at which there were too many."""

    events: list[Event]
    times_ms: list[int]


def churn(events: Iterable[Event], context: Context, told: Told = ALL) -> list[Observation]:
    """Returns an observation for each prefix with a new id among those that are told, the worst first."""
    found = [(prefix, born.events) for prefix, born in _born(events).items() if any(map(told.has, born.events))]
    found.sort(key=lambda each: (-len(each[1]), each[0]))
    return [_observe(prefix, new, context) for prefix, new in found[:MOST_SUBJECTS]]


def churned(events: Iterable[Event]) -> dict[str, list[int]]:
    """Returns by prefix the times at which too many new ids had come."""
    return {prefix: born.times_ms for prefix, born in _born(events).items()}


def is_churned(prefix: str, at_ms: int, times_ms: Mapping[str, Sequence[int]]) -> bool:
    """Whether too many new ids of the prefix had come in the QUIET_MS before."""
    times = times_ms.get(prefix, ())
    behind = bisect_right(times, at_ms)
    return behind > 0 and at_ms - times[behind - 1] <= QUIET_MS


def _born(events: Iterable[Event]) -> dict[str, _Born]:
    """By prefix with too many new ids in some QUIET_MS, by the log's times: when they were read makes no difference."""
    by_prefix: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.cause == causes.INITIALIZED and event.from_state == NEVER_SEEN:
            prefix = prefix_of(event.name)
            if prefix != event.name:
                by_prefix[prefix].append(event)
    found = {prefix: _too_many(sorted(new, key=lambda e: (e.at_ms, e.sequence))) for prefix, new in by_prefix.items()}
    return {prefix: born for prefix, born in found.items() if born.events}


def _too_many(new: Sequence[Event]) -> _Born:
    """`new`: of one prefix, in the order of time."""
    born = _Born([], [])
    names: Counter[str] = Counter()
    minutes: Counter[int] = Counter()
    made_up_ones: Counter[str] = Counter()
    starts: Counter[int] = Counter()

    def count(event: Event, more: int) -> None:
        _add(names, event.name, more)
        _add(minutes, minute_of(event.at_ms), more)
        if is_random(event.name):
            _add(made_up_ones, made_up(event.name), more)
            _add(starts, event.at_ms // START_MS, more)

    begin = first = 0
    for end, event in enumerate(new):
        count(event, 1)
        while event.at_ms - new[begin].at_ms > QUIET_MS:
            count(new[begin], -1)
            begin += 1
        is_made_up = len(made_up_ones) >= RANDOM_IDS and len(starts) >= STARTS
        if is_made_up or (len(names) >= COUNTED_IDS and len(minutes) >= COUNTED_MINUTES):
            born.events.extend(new[max(first, begin) : end + 1])
            born.times_ms.append(event.at_ms)
            first = end + 1
    born.events.sort()
    return born


def _add(counter: Counter[T], one: T, more: int) -> None:
    counter[one] += more
    if not counter[one]:
        del counter[one]


def _observe(prefix: str, new: Sequence[Event], context: Context) -> Observation:
    kept = span(context.limits.expiration_ms) + context.assumed(EXPIRATION_CONFIG)
    return ruled(
        Observation(
            kind=kinds.CHURN,
            severity=kinds.WARNING,
            subject=Subject(prefix=prefix),
            summary=f"{prefix}: new transactional ids keep coming, as if every start made up its own"
            f" ({listed([e.name for e in new[-2:]])})",
            advice=(_FOR_STREAMS if is_of_streams(new[-1].name) else _FOR_OTHERS)
            + " Only then does a start abort what the one before left open. Now such a transaction blocks readers until"
            f" its timeout, and each id takes memory in the coordinator for {kept} after its last use.",
            evidence=tuple(
                evidence(e, f"{e.name}: first seen, producer id {e.producer_id}") for e in new[-EVIDENCE_KEPT:]
            ),
            confidence=kinds.LIKELY,
            occurrences=tuple(Occurrence(e.sequence, e.at_ms) for e in new),
        ),
        context.rules.of(prefix),
    )
