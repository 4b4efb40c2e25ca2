"""Findings about transactions that the coordinator aborted because they timed out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service.domain.applications import NOTHING, is_two_phase
from service.domain.findings.advice import TwoPhase, checkpoint, two_phase_of
from service.domain.findings.churn import is_churning
from service.domain.findings.context import Context, with_rule
from service.domain.findings.events import (
    Event,
    Group,
    ReportWindow,
    Whose,
    change_count,
    evidence,
    group_by_subject,
    prefix_of,
)
from service.domain.findings.finding import EVIDENCE_KEPT, Evidence, Facts, Observation, Occurrence, Subject, Words
from service.domain.findings.formatting import (
    Names,
    assumed_remark,
    duration,
    join_names,
    join_partitions,
    names_of,
    utc,
)
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.open_too_long import Makers
from service.domain.findings.settling import TOGETHER_MS, gap_ms
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.known_log import SCAN_CONFIG
from service.domain.transaction_log.states import TOPIC

_LOSS: Final = (
    "the records may be lost, and the log does not show whether they are. If a checkpoint or savepoint of the job holds"
    " the transaction, the job counts the records as delivered and does not write them again; when the job is restored,"
    ' its log has "Unable to commit transaction" with the id. If no checkpoint or savepoint holds the transaction, the'
    " job writes the records again from its last checkpoint. To prevent such losses, a job has to be back within its"
    " transaction.timeout.ms: raise this timeout above the longest absence (up to the brokers'"
    " transaction.max.timeout.ms)."
)


def timed_out(timeouts: Iterable[Event], context: Context, window: ReportWindow, makers: Makers) -> list[Observation]:
    """Returns one observation for each id, or for each prefix that several ids share. `timeouts`: the aborts by timeout
    that are in no burst."""
    return [_observe(group, context, makers) for group in group_by_subject(timeouts, gap_ms(context), window)]


def one_abort(event: Event, context: Context) -> Evidence:
    """Returns the evidence of one abort by timeout."""
    opened = "" if event.duration_ms is None else f", open for {duration(event.duration_ms)}"
    scan_ms = context.log.limits.scan_ms
    short = (
        f"; the timeout is below the coordinator's scan interval of {duration(scan_ms)}, so the abort comes later"
        f" than the timeout{assumed_remark(SCAN_CONFIG, is_assumed=context.log.is_assumed(SCAN_CONFIG))}"
        if event.timeout_ms < scan_ms
        else ""
    )
    return evidence(
        event, f"{event.name}: aborted, transaction.timeout.ms {event.timeout_ms}{opened} ({event.confidence}){short}"
    )


def _sinks(events: Iterable[Event], makers: Makers) -> list[Event]:
    return [e for e in events if is_two_phase(makers.get(e.transactional_id, NOTHING), e.timeout_ms)]


@dataclass(frozen=True, slots=True)
class TimedOutFacts(Facts):
    """The facts about aborts by timeout. `longest_ms`: the longest time from the start of one of the transactions to
    its abort; if that time is not known, the transaction's timeout counts. `is_one`: there is only one transaction.
    `sink`: the newest id that a two-phase sink is known to have made; None if there is none. `are_all_sinks`: all ids
    are known to be of two-phase sinks. `may_be_two_phase`: LIKELY if a two-phase sink may have made some of the other
    ids."""

    whose: Whose
    longest_ms: int
    is_one: bool
    may_be_two_phase: TwoPhase
    sink: str | None
    are_all_sinks: bool

    def words(self, about: Observation, /) -> Words:
        times = "its transactions were" if self.whose.ids == 1 else "transactions were"
        loss = f"By its form and use, the id {self.sink} belongs to Apache Flink's two-phase sink: {_LOSS}"
        advice = self.advice() if self.sink is None else loss if self.are_all_sinks else f"{self.advice()} {loss}"
        return Words(
            f"{self.whose.text(about.subject)}: {times} aborted by the coordinator after transaction.timeout.ms",
            advice,
            "" if self.sink is None else "records that a checkpoint counts as delivered may be lost",
        )

    def advice(self) -> str:
        which = "the transaction was" if self.is_one else "the longest transaction was"
        return (
            f"The records of these transactions are discarded.{checkpoint(self.may_be_two_phase)} If the application is"
            f" too slow, commit more often or raise transaction.timeout.ms: {which} open for"
            f" {duration(self.longest_ms)} when the coordinator ended it. If the application stopped, find out why. A"
            " producer of the old protocol is fenced by the abort and has to be started again."
        )


def _observe(group: Group, context: Context, makers: Makers) -> Observation:
    events, last = group.events, group.events[-1]
    sinks = _sinks(events, makers)
    facts = TimedOutFacts(
        group.whose,
        max(e.duration_ms or e.timeout_ms for e in events),
        len(events) == 1,
        _two_phase(events, makers),
        sinks[-1].name if sinks else None,
        len(sinks) == len(events),
    )
    return with_rule(
        Observation(
            kind=Kind.TIMED_OUT,
            severity=Severity.WARNING,
            subject=group.subject,
            facts=facts,
            evidence=tuple(one_abort(e, context) for e in events[-EVIDENCE_KEPT:]),
            confidence=Confidence.LIKELY if last.confidence != Confidence.CERTAIN else Confidence.CERTAIN,
            log_partition=group.log_partition,
            occurrences=group.occurrences,
        ),
        context.rules.of(group.whose.name),
    )


def _two_phase(events: Iterable[Event], makers: Makers) -> TwoPhase:
    """Returns LIKELY or NO: the confidence that a two-phase sink made one of the transactions. Transactions that are
    known to be of such a sink do not count, because the finding's text mentions them separately (`_sinks`)."""
    found = {two_phase_of(e.name, e.timeout_ms, makers.get(e.transactional_id, NOTHING)) for e in events}
    return TwoPhase.LIKELY if TwoPhase.LIKELY in found else TwoPhase.NO


MANY_IDS: Final = 5

Participants = Mapping[tuple[bytes, int], Sequence[tuple[str, int]]]
"""Maps (id, producer id) to the partitions of the last transaction that ended, as (topic, partition)."""


Burst = tuple[Event, ...]
"""Timeouts of many ids, each soon after the previous timeout."""


def bursts(timeouts: Iterable[Event], churn_times: Mapping[str, Sequence[int]], context: Context) -> list[Burst]:
    """Returns the bursts among the timeouts, oldest first.

    A timeout is in a burst if it lies in a window of TOGETHER_MS in which at least MANY_IDS ids time out, each at most
    `gap_ms` after the previous timeout. (Timeouts that come one by one over a longer time are no outage.) Timeouts
    outside of the window do not matter, so each timeout is settled within a bounded time (see `settling`).

    `churn_times`: from `churn.churn_times`. Timeouts of ids of a prefix in churn are left out: a new id at every start
    explains such timeouts."""
    own = (e for e in timeouts if not is_churning(prefix_of(e.name), e.at_ms, churn_times))
    aborted = sorted(own, key=lambda e: (e.at_ms, e.sequence))
    apart_ms = gap_ms(context)
    found: list[tuple[int, int]] = []
    within: Counter[bytes] = Counter()
    linked = begin = 0  # first timeout connected to this one without a gap; first of these within TOGETHER_MS
    for end, event in enumerate(aborted):
        if end and event.at_ms - aborted[end - 1].at_ms > apart_ms:
            within.clear()
            linked = begin = end
        within[event.transactional_id] += 1
        while event.at_ms - aborted[begin].at_ms > TOGETHER_MS:
            change_count(within, aborted[begin].transactional_id, -1)
            begin += 1
        if len(within) >= MANY_IDS:
            continues = found and linked <= found[-1][1] and begin <= found[-1][1] + 1
            found.append((found.pop()[0] if continues else begin, end))
    return [tuple(aborted[first : last + 1]) for first, last in found]


@dataclass(frozen=True, slots=True)
class CorrelatedFacts(Facts):
    """A burst of timeouts since `first_ms`. `ids`: the number of its ids; `came_back`: the number of those with an
    InitProducerId since. `survived_ms`: the longest time from the start of one of the transactions to that
    InitProducerId; it means nothing while some ids have not come back. `broker`: the broker that coordinates all these
    ids; None if several brokers do, or if the broker is not known. `sink_ids`: the number of ids that two-phase sinks
    are known to have made; `sinks`: the applications of these ids; `sink`: the newest of these ids. `are_all_sinks`:
    all ids of the burst are of two-phase sinks."""

    ids: int
    first_ms: int
    came_back: int
    survived_ms: int
    broker: int | None
    may_be_two_phase: TwoPhase
    sink_ids: int
    sinks: Names
    sink: str
    are_all_sinks: bool

    def words(self, _: Observation, /) -> Words:
        survived = duration(self.survived_ms)
        back = f"all were initialised again within {survived} of the start of their transactions"
        if self.came_back < self.ids:
            have = "has" if self.came_back == 1 else "have"
            back = f"{self.came_back:,} of {self.ids:,} ids {have} been initialised again"
        own = "" if self.broker is None else f"broker {self.broker} coordinates them all now; "
        return Words(f"{self.ids:,} ids timed out together from {utc(self.first_ms)} on", self.advice(), own + back)

    def advice(self) -> str:
        general = (
            "This is usually the trace of an outage of brokers, of the network or of the application itself: these"
            " transactions were not ended within their transaction.timeout.ms. Their records are discarded."
            f"{checkpoint(self.may_be_two_phase)} Producers of the old protocol that still run are fenced by these"
            " aborts, even without a second instance: start them again. To survive such an outage, raise"
            " transaction.timeout.ms (up to the brokers' transaction.max.timeout.ms)."
        )
        if not self.sink_ids:
            return general
        if self.are_all_sinks:
            return (
                "By their form and use, all these ids belong to Apache Flink's two-phase sinks"
                f" ({self.sinks}): their job was down, or could not commit, for longer than its transaction.timeout.ms."
                f" So {_LOSS}"
            )
        return (
            f"{general} {self.sink_ids:,} of these ids, such as {self.sink}, belong to two-phase sinks (Apache Flink):"
            f" {_LOSS}"
        )


def correlated(
    found: Sequence[Burst],
    waiting: tuple[int, ...],
    events: Sequence[Event],
    participants: Participants,
    context: Context,
    makers: Makers,
) -> list[Observation]:
    """Returns one observation for the cluster, which describes the newest burst and counts the timeouts of all bursts.
    Returns an empty list if there is no burst. `waiting`: sequence numbers of the timeouts that may still join a burst.
    `events`: the events that show when the ids came back."""
    if not found:
        return []
    burst = found[-1]
    survived, came_back = _survival(burst, events)
    logs = sorted({e.partition for e in burst})
    leaders = {context.log.leaders.get(log, -1) for log in logs}
    brokers = sorted(leaders - {-1})
    names = sorted({e.name for e in burst})
    where = _common(burst, participants)
    facts = [
        f"ids: {join_names(names, 20)}",
        f"coordinators: {join_names([f'{TOPIC}-{log}' for log in logs], 20)}, led by"
        f" {join_names([f'broker {b}' for b in brokers], 10) or 'no known broker'} now",
        f"partitions that most of these ids wrote to: {where}",
    ]
    first, last = burst[0], burst[-1]
    sinks = _sinks(burst, makers)
    described = CorrelatedFacts(
        len(names),
        first.at_ms,
        came_back,
        survived,
        brokers[0] if brokers and len(leaders) == 1 else None,
        _two_phase(burst, makers),
        len({e.transactional_id for e in sinks}),
        names_of(sorted({makers.get(e.transactional_id, NOTHING).name or "" for e in sinks})),
        sinks[-1].name if sinks else "",
        len(sinks) == len(burst),
    )
    return [
        Observation(
            kind=Kind.CORRELATED_TIMEOUTS,
            severity=Severity.WARNING,
            subject=Subject(),
            facts=described,
            evidence=(
                *(Evidence(last.at_ms, "transaction log", fact) for fact in facts),
                *(one_abort(e, context) for e in burst[-(EVIDENCE_KEPT - len(facts)) :]),
            ),
            confidence=Confidence.LIKELY,
            occurrences=tuple(sorted(Occurrence(e.sequence, e.at_ms) for b in found for e in b)),
            waiting=waiting,
        )
    ]


def _survival(burst: Burst, events: Sequence[Event]) -> tuple[int, int]:
    """Returns (time in ms, number of ids that came back). The time is the longest time from a transaction's start to
    its id's next InitProducerId, rounded up to 10 s. For an id that has not come back, the time to its abort counts.
    """
    back: dict[bytes, int] = {}
    ended = {e.transactional_id: e.at_ms for e in burst}
    for e in sorted(events, key=lambda e: -e.at_ms):
        after = ended.get(e.transactional_id)
        if after is not None and e.cause == CauseCode.INITIALIZED and e.at_ms >= after:
            back[e.transactional_id] = e.at_ms
    needed = [back.get(e.transactional_id, e.at_ms) - (e.at_ms - (e.duration_ms or e.timeout_ms)) for e in burst]
    return -(-max(needed) // 10_000) * 10_000, len(back)


def _common(burst: Burst, participants: Participants) -> str:
    """Returns, as text, the partitions that at least half of the ids wrote to; if there are none, the five partitions
    that most ids wrote to; "unknown" if no partition is known."""
    counts = Counter(
        place
        for one, pid in {(e.transactional_id, e.producer_id) for e in burst}
        for place in participants.get((one, pid), ())
    )
    if not counts:
        return "unknown"
    ids = {e.transactional_id for e in burst}
    half = [place for place, n in counts.most_common() if 2 * n >= len(ids)]
    return join_partitions(half or [place for place, _ in counts.most_common(5)], 10)
