"""Findings about applications that generate a new transactional.id at every start, so that nothing fences the
transaction that an earlier start left open.

New ids alone are no churn: a healthy application has new ids at its first start, and a rolling start of many instances
takes minutes. In churn, ids are also given up: an id had transactions, then a newer id had transactions, and nothing
more was written for the older one. The birth of an id is its first record. An id that never had a transaction proves
nothing, because a thread of Kafka Streams without a task has such an id, too.

Apache Flink's sink gives ids up by design, one for each checkpoint (`id_behaviour.INCREMENTING`): a finding about them
has only the severity INFO.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.domain.applications import Framework, application_of, flink_name, has_form_of_streams
from service.domain.findings.context import Context, with_rule
from service.domain.findings.events import (
    Event,
    ReportWindow,
    change_count,
    evidence,
    generated_part,
    is_generated,
    prefix_of,
)
from service.domain.findings.finding import EVIDENCE_KEPT, Facts, Observation, Occurrence, Subject, Words
from service.domain.findings.formatting import Names, assumed_remark, duration, names_of
from service.domain.findings.kinds import QUIET_MS, Kind, Severity
from service.domain.id_behaviour import IN_USE, INCREMENTING, Behaviour, Init, flink_strategy
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.id_delta import minute_of
from service.domain.transaction_log.states import EXPIRATION_CONFIG, NEVER_SEEN

RANDOM_IDS: Final = 5
"""Ids whose part after the prefix was generated may be churn if at least this many of one prefix appear, or are given
up, within 15 minutes. The ids of one process (Kafka Streams) count as one."""

START_MS: Final = 10_000
MIN_STARTS: Final = 3
"""Generated ids may be churn only if they belong to this many starts or more. All ids born within one span of START_MS
belong to one start."""

COUNTED_IDS: Final = 20
COUNTED_MINUTES: Final = 5
"""Ids that differ only by plain numbers (at most 6 digits) may be churn if, within 15 minutes, at least COUNTED_IDS of
one prefix appear or are given up, and these ids were born in at least COUNTED_MINUTES different minutes. If they were
born in fewer minutes, they belong to a deployment."""

UNUSED_MS: Final = 60_000
"""Time after the birth of a new id at which the judge checks whether the ids before it are still in use. Within this
time (the default transaction.timeout.ms), a working producer ends its transaction."""

SHORT_LIVED_MS: Final = 2 * QUIET_MS
"""Longest life (ms) of an id that counts as given up by a restart. Allows for the longest transaction.timeout.ms that
brokers accept by default, because a transaction that a crash left open keeps the id in use for that long."""

MANY_PROCESSES: Final = 1_000
"""This many new processes within 15 minutes cannot be the first start of an application, even if their ids stay in
use."""

Uses = Mapping[bytes, int]
"""Maps each id that had a transaction to the time (ms) of its last use, by the log's clock. The time is IN_USE while a
transaction of the id is open, and while the newest record of the id cannot be decoded."""

_STATE_DIR: Final = (
    " on a disk that outlives its process: the process id in its transactional ids is stored there, if the topology has"
    " a persistent state store. Without such a store every start makes up new ids."
)


class Maker(StrEnum):
    """The maker of the ids, as far as the advice depends on it."""

    STREAMS = "streams"
    PERHAPS_STREAMS = "perhaps_streams"
    FLINK = "flink"
    OTHER = "other"


_OTHER: Final = "Give each instance a transactional.id that stays the same over restarts."
_REMEDIES: Final = {
    Maker.STREAMS: f"Keep state.dir of this Kafka Streams application{_STATE_DIR}",
    Maker.PERHAPS_STREAMS: f"{_OTHER} If this is Kafka Streams, keep its state.dir{_STATE_DIR}",
    Maker.OTHER: _OTHER,
}


@dataclass(frozen=True, slots=True)
class ChurnFacts(Facts):
    """The facts about a prefix with churn. `newest`: the newest ids. Each id takes memory for `kept_ms`,
    which is Kafka's default if `is_assumed`. `kept_ids`: the approximate number of ids that are kept at the present
    rate; 0 unless Flink made the ids."""

    maker: Maker
    newest: Names
    kept_ms: int
    is_assumed: bool
    kept_ids: int

    def words(self, about: Observation, /) -> Words:
        prefix = about.subject.prefix
        kept = duration(self.kept_ms) + assumed_remark(EXPIRATION_CONFIG, is_assumed=self.is_assumed)
        if self.maker is Maker.FLINK:
            return Words(
                f"{prefix}: a new transactional id for each checkpoint, as Apache Flink's naming strategy"
                f" {INCREMENTING} makes them ({self.newest})",
                f"Nothing is wrong, and nothing has to be done. Each id takes memory in its coordinator for {kept}"
                f" after its last use: at the present rate some {self.kept_ids:,} ids are kept. If that is too much,"
                " the naming strategy POOLING (TransactionNamingStrategy, flink-connector-kafka 4.0 or newer) uses a"
                " few ids again and again. Fewer checkpoints, or a shorter transactional.id.expiration.ms, also reduce"
                " the number.",
            )
        return Words(
            f"{prefix}: new transactional ids keep coming, as if every start made up its own ({self.newest})",
            f"{_REMEDIES[self.maker]} Only then does a start abort the transaction that the previous start left"
            f" open. Otherwise such a transaction blocks readers until its timeout, and each id takes memory in the"
            f" coordinator for {kept} after its last use.",
        )


class _IdCounter:
    """Counts ids of one prefix in a span of time."""

    def __init__(self) -> None:
        self._all: Counter[str] = Counter()
        self._minutes: Counter[int] = Counter()
        self._made_up: Counter[str] = Counter()
        self._starts: Counter[int] = Counter()

    def change(self, born: Event, by: int) -> None:
        name = generated_part(born.name)
        change_count(self._all, name, by)
        change_count(self._minutes, minute_of(born.at_ms), by)
        if is_generated(born.name):
            change_count(self._made_up, name, by)
            change_count(self._starts, born.at_ms // START_MS, by)

    @property
    def processes(self) -> int:
        return len(self._all)

    @property
    def are_many(self) -> bool:
        are_made_up = len(self._made_up) >= RANDOM_IDS and len(self._starts) >= MIN_STARTS
        return are_made_up or (len(self._all) >= COUNTED_IDS and len(self._minutes) >= COUNTED_MINUTES)


def churn(
    new: Iterable[Event], uses: Uses, context: Context, window: ReportWindow, cut: Collection[bytes]
) -> list[Observation]:
    """Returns an observation for each prefix with churn, the worst first. `new`: from `new_ids`. If there are
    MANY_PROCESSES new processes or more, births of their ids are reported even before the births are settled
    (`window.before_sequence`). `cut`: ids with a transaction that was aborted by timeout or fence."""
    found: list[tuple[int, str, Observation]] = []
    for prefix, of_prefix in _by_prefix(new).items():
        of_flink, others = _by_maker(of_prefix, uses, cut)
        if shown := _shown(others, uses, window):
            found.append((len(shown), prefix, _observe(prefix, shown, uses, context)))
        elif shown := _shown(of_flink, uses, window):
            found.append((len(shown), prefix, _observe(prefix, shown, uses, context, of_flink)))
    return [observation for _, _, observation in sorted(found, key=lambda each: (-each[0], each[1]))]


def churn_times(events: Iterable[Event]) -> dict[str, list[int]]:
    """Returns a mapping from prefix to the times at which too many new ids had appeared. Ids that are still in use
    count too."""
    found = {prefix: _times_of_many(of_prefix) for prefix, of_prefix in _by_prefix(events).items()}
    return {prefix: times_ms for prefix, times_ms in found.items() if times_ms}


def is_churning(prefix: str, at_ms: int, times_ms: Mapping[str, Sequence[int]]) -> bool:
    """Returns whether the prefix's ids were churning at `at_ms`: `times_ms`, from `churn_times`, has a time of the
    prefix in the QUIET_MS before `at_ms`."""
    times = times_ms.get(prefix, ())
    earlier = bisect_right(times, at_ms)
    return earlier > 0 and at_ms - times[earlier - 1] <= QUIET_MS


def new_ids(events: Iterable[Event], prefixes: Collection[str]) -> list[Event]:
    """Returns the births of the ids of these prefixes, prefix by prefix, in the order of the log's times."""
    return [e for prefix, of_prefix in _by_prefix(events).items() if prefix in prefixes for e in of_prefix]


def _by_prefix(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Returns a mapping from prefix to the births of the ids with that prefix, in the order of the log's times. An
    event that is no birth is left out, and so is the birth of an id without a part that numbers an instance."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda e: (e.at_ms, e.sequence)):
        if event.cause == CauseCode.INITIALIZED and event.from_state == NEVER_SEEN:
            prefix = prefix_of(event.name)
            if prefix != event.name:
                found[prefix].append(event)
    return found


def _by_maker(new: Sequence[Event], uses: Uses, cut: Collection[bytes]) -> tuple[list[Event], list[Event]]:
    """Returns (births of ids that Flink numbers by checkpoint, other births), from the births of one prefix."""
    of_subtask: dict[tuple[str, int], dict[int, Behaviour]] = defaultdict(dict)
    for event in new:
        if (parts := flink_name(event.name)) is not None:
            of_subtask[parts[:2]][parts.number] = _behaviour(event, uses, cut)
    of_flink = {prefix for (prefix, _), ids in of_subtask.items() if flink_strategy(ids) == INCREMENTING}
    found: tuple[list[Event], list[Event]] = [], []
    for event in new:
        parts = flink_name(event.name)
        found[parts is None or parts.prefix not in of_flink].append(event)
    return found


def _behaviour(born: Event, uses: Uses, cut: Collection[bytes]) -> Behaviour:
    return Behaviour(
        born.name,
        born.timeout_ms,
        inits=(Init(born.at_ms, born.producer_epoch),),
        last_use_ms=uses.get(born.transactional_id),
        was_cut=born.transactional_id in cut,
    )


def _times_of_many(new: Sequence[Event]) -> list[int]:
    ids, times_ms, begin = _IdCounter(), [], 0
    for event in new:
        ids.change(event, 1)
        while event.at_ms - new[begin].at_ms > QUIET_MS:
            ids.change(new[begin], -1)
            begin += 1
        if ids.are_many:
            times_ms.append(event.at_ms)
    return times_ms


def _shown(new: Sequence[Event], uses: Uses, window: ReportWindow) -> list[Event]:
    """Returns the births of one prefix that are reported. A birth causes a report if MANY_PROCESSES processes or more
    were born within QUIET_MS before the birth. A birth of an id that had a transaction also causes a report if too many
    earlier ids were given up within QUIET_MS before the birth. The report has all births of these QUIET_MS."""
    ended = _ended(new, uses)
    born, given_up, shown = _IdCounter(), _IdCounter(), list[Event]()
    begin = first = came = went = 0
    for end, event in enumerate(new):
        born.change(event, 1)
        while event.at_ms - new[begin].at_ms > QUIET_MS:
            born.change(new[begin], -1)
            begin += 1
        while came < len(ended) and ended[came][0] < event.at_ms:
            given_up.change(ended[came][1], 1)
            came += 1
        while went < came and event.at_ms - ended[went][0] > QUIET_MS:
            given_up.change(ended[went][1], -1)
            went += 1
        replaces = given_up.are_many and event.transactional_id in uses and window.includes(event)
        if replaces or (born.processes >= MANY_PROCESSES and event.at_ms >= window.since_ms):
            shown.extend(new[max(first, begin) : end + 1])
            first = end + 1
    return sorted(shown)


def _ended(new: Sequence[Event], uses: Uses) -> list[tuple[int, Event]]:
    """Returns (last use, birth) of each process that had a transaction and lived for at most SHORT_LIVED_MS, in the
    order of last use."""
    births: dict[str, Event] = {}
    last_ms: dict[str, int] = {}
    for event in new:
        process = generated_part(event.name)
        births.setdefault(process, event)
        if event.transactional_id in uses:
            last_ms[process] = max(last_ms.get(process, event.at_ms), uses[event.transactional_id])
    return sorted((ms, births[p]) for p, ms in last_ms.items() if ms - births[p].at_ms <= SHORT_LIVED_MS)


def _observe(
    prefix: str, new: Sequence[Event], uses: Uses, context: Context, of_flink: Sequence[Event] = ()
) -> Observation:
    """Returns the observation of churn under `prefix`, shown by the births `new`. `of_flink`: the births of all ids
    under the prefix that Flink numbers by checkpoint; empty if `new` has none of them."""
    limits = context.log.limits
    span_ms = max(of_flink[-1].at_ms - of_flink[0].at_ms, START_MS) if of_flink else START_MS
    facts = ChurnFacts(
        Maker.FLINK if of_flink else _maker(new),
        names_of([e.name for e in new[-2:]]),
        limits.expiration_ms,
        context.log.is_assumed(EXPIRATION_CONFIG),
        _one_digit(len(of_flink) * limits.expiration_ms // span_ms),
    )
    return with_rule(
        Observation(
            kind=Kind.CHURN,
            severity=Severity.INFO if of_flink else Severity.WARNING,
            subject=Subject(prefix=prefix),
            facts=facts,
            evidence=tuple(evidence(e, _described(e, uses)) for e in new[-EVIDENCE_KEPT:]),
            confidence=Confidence.LIKELY,
            occurrences=tuple(Occurrence(e.sequence, e.at_ms) for e in new),
        ),
        context.rules.of(prefix),
    )


def _maker(new: Sequence[Event]) -> Maker:
    ids = [_behaviour(event, {}, ()) for event in new]
    if application_of(ids[-1], ids[:-1]).kind == Framework.KAFKA_STREAMS:
        return Maker.STREAMS
    return Maker.PERHAPS_STREAMS if has_form_of_streams(ids[-1].name) else Maker.OTHER


def _one_digit(count: int) -> int:
    """Rounds to one digit: the rate of a few minutes is no more exact, and a rounded text changes less often."""
    step: int = 10 ** (len(str(count)) - 1)
    return round(count / step) * step


def _described(event: Event, uses: Uses) -> str:
    last_ms = uses.get(event.transactional_id)
    if last_ms is None:
        used = "without a transaction"
    else:
        used = "in use" if last_ms == IN_USE else f"used for {duration(last_ms - event.at_ms)}"
    return f"{event.name}: first seen, producer id {event.producer_id}, {used}"
