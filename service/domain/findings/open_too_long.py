"""Findings about open transactions: long-running (within their timeout), overdue (timed out and not aborted), stuck
(decided, with markers missing)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from service.domain.applications import NOTHING, Application, Framework, is_two_phase, may_be_two_phase
from service.domain.findings.advice import Answer, LongRunningFacts, OverdueFacts, Sink, StuckFacts, two_phase_of
from service.domain.findings.conditions import IdState, about_id, bounded, judgeable, place_of, rule_of
from service.domain.findings.context import Context
from service.domain.findings.finding import Evidence, Observation
from service.domain.findings.formatting import Names, assumed_remark, duration, names_of, partitions_of, utc
from service.domain.findings.kinds import CRITICAL_AFTER_MS, Kind, Severity
from service.domain.findings.mismatch import MOST_LEADERS, WithoutMarker
from service.domain.transaction_log import deadlines
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.deadlines import abort_due_at_ms, times_out_at_ms
from service.domain.transaction_log.known_log import SCAN_CONFIG, KnownLog
from service.domain.transaction_log.states import ONGOING, PREPARE_ABORT, PREPARE_COMMIT, is_time

LONG_AFTER_MS: Final = 60_000
"""Time after which an open transaction counts as long-running, unless a rule sets another time. This time is Kafka's
default transaction.timeout.ms, by which most transactions would have been aborted."""

STUCK_AFTER_MS: Final = 10_000
"""Time in PrepareX after which a transaction counts as stuck. Markers normally take milliseconds, so after this time a
leader probably does not answer."""

NEAR_DEADLINE: Final = 4
"""A transaction of a two-phase sink is near its deadline when a quarter of its timeout, or less, is left."""

Makers = Mapping[bytes, Application]
"""Maps an id to its maker. Has only the ids for which the store was queried."""

Missing = Mapping[bytes, tuple[WithoutMarker, ...] | None]
"""Maps an id to the partitions that have no marker yet, as the id's coordinator reports them
(`CoordinatorAnswer.missing`): empty if the coordinator reports none, None if it was not asked or did not answer."""


class NewestState(Protocol):
    """The fields of an id's newest record that decide whether its transaction is overdue or stuck. `partition`: the
    record's partition of the transaction log."""

    @property
    def partition(self) -> int: ...
    @property
    def state(self) -> int: ...
    @property
    def timeout_ms(self) -> int: ...
    @property
    def started_at_ms(self) -> int | None: ...
    @property
    def state_since_ms(self) -> int: ...


def abort_due_ms(newest_state: NewestState, log: KnownLog) -> int | None:
    """Returns the time by which the abort of the transaction must be in the log; None if the transaction never times
    out, or if its start is not known."""
    return abort_due_at_ms(newest_state.state, newest_state.started_at_ms, newest_state.timeout_ms, log.limits.scan_ms)


def is_overdue(newest_state: NewestState, log: KnownLog) -> bool:
    return deadlines.is_overdue(
        newest_state.state, newest_state.started_at_ms, newest_state.timeout_ms, newest_state.partition, log
    )


def is_stuck(newest_state: NewestState, log: KnownLog) -> bool:
    """Returns whether the transaction was still in PrepareX STUCK_AFTER_MS after its decision. Returns False if the log
    is not known up to that time."""
    is_prepared = newest_state.state in (PREPARE_COMMIT, PREPARE_ABORT) and is_time(newest_state.state_since_ms)
    return is_prepared and log.is_known_until(newest_state.partition, newest_state.state_since_ms + STUCK_AFTER_MS)


def long_running(ids: Iterable[IdState], context: Context, makers: Makers) -> list[Observation]:
    """Returns observations of transactions that have been open for a long time and are not overdue. If an id is known
    to belong to a two-phase sink, its transaction is also returned if it is near the deadline. `ids`: the ids
    with open transactions, the oldest transaction first."""
    return bounded(
        [
            id_state
            for id_state in long_open(ids, context)
            if _is_long(id_state, context)
            or is_two_phase(makers.get(id_state.transactional_id, NOTHING), id_state.timeout_ms)
        ],
        lambda id_state: _long_running(id_state, makers.get(id_state.transactional_id, NOTHING), context),
    )


def long_open(ids: Iterable[IdState], context: Context) -> list[IdState]:
    """Returns the ids whose transactions have been open for a long time and are not overdue. If a two-phase sink may
    have made an id, the id is also returned if its transaction is near the deadline, because a rule with a long
    `long_after` must not hide such a transaction."""
    return [
        id_state
        for id_state in judgeable(ids, context)
        if (
            _is_long(id_state, context)
            or (may_be_two_phase(id_state.name, id_state.timeout_ms) and _is_near(id_state, context))
        )
        and not is_overdue(id_state, context.log)
    ]


def _is_long(id_state: IdState, context: Context) -> bool:
    if id_state.state != ONGOING or id_state.started_at_ms is None or not is_time(id_state.started_at_ms):
        return False
    long_after = rule_of(id_state, context).long_after_ms
    limit = LONG_AFTER_MS if long_after is None else long_after
    return context.log.known_until_ms[id_state.partition] - id_state.started_at_ms >= limit


def _long_running(id_state: IdState, maker: Application, context: Context) -> Observation:
    rule = rule_of(id_state, context)
    started = id_state.started_at_ms or 0
    times_out = times_out_at_ms(id_state.state, id_state.started_at_ms, id_state.timeout_ms)
    place = place_of(id_state, context)
    heals = None if place.was_left_behind else abort_due_ms(id_state, context.log)
    if place.was_left_behind:
        ends = (
            "it is not known whether the timeout ends the transaction, because its record was left behind when"
            " partitions were added to the transaction log"
        )
    elif times_out is None or heals is None:
        ends = "it has no timeout (two-phase commit): only its application ends it"
    else:
        ends = (
            f"it times out at {utc(times_out)}; its abort is due by {utc(heals)}, and its records are then"
            f" discarded{_assumed(context)}"
        )
    evidence = [Evidence(started, "transaction log", f"open since {utc(started)}; {ends}")]
    if rule.long_after_ms is not None:
        evidence.append(
            Evidence(started + rule.long_after_ms, "rules", f"long-running after {duration(rule.long_after_ms)}")
        )
    is_sink = is_two_phase(maker, id_state.timeout_ms)
    is_near = is_sink and _is_near(id_state, context)
    facts = LongRunningFacts(
        id_state.name, started, place, _sink(id_state, maker), partitions_of(id_state.topics), is_near
    )
    # what the timeout does to a two-phase sink is a loss, and heals nothing
    return about_id(
        id_state,
        context,
        kind=Kind.LONG_RUNNING,
        severity=Severity.INFO if rule.long_after_ms is None and not is_near else Severity.WARNING,
        facts=facts,
        evidence=evidence,
    )._replace(self_heals_at_ms=None if is_sink else heals)


def _assumed(context: Context) -> str:
    return assumed_remark(SCAN_CONFIG, is_assumed=context.log.is_assumed(SCAN_CONFIG))


def _is_near(id_state: IdState, context: Context) -> bool:
    times_out_ms = times_out_at_ms(id_state.state, id_state.started_at_ms, id_state.timeout_ms)
    if times_out_ms is None:
        return False
    return times_out_ms - context.log.known_until_ms[id_state.partition] <= id_state.timeout_ms // NEAR_DEADLINE


class Surroundings(NamedTuple):
    """Facts that help to explain overdue transactions. `written_ms`: a mapping from partition of the transaction log to
    the newest timestamp of a record there (of the most recently updated ids only). `answers`: a mapping from id to the
    coordinator's answer."""

    written_ms: Mapping[int, int] = {}
    answers: Mapping[bytes, Answer] = {}


def overdue(ids: Iterable[IdState], context: Context, surroundings: Surroundings) -> list[Observation]:
    """Returns observations of overdue transactions. `ids`: ids with open transactions, the earliest deadline first.
    Transactions that no coordinator knows any more are left out, because they are reported as hanging."""
    return bounded(
        [
            id_state
            for id_state in judgeable(ids, context)
            if is_overdue(id_state, context.log)
            and (id_state.transactional_id, id_state.producer_id) not in context.uncoordinated
        ],
        lambda id_state: _overdue(id_state, context, surroundings),
    )


def _sink(id_state: IdState, maker: Application = NOTHING) -> Sink:
    return Sink(
        two_phase_of(id_state.name, id_state.timeout_ms, maker),
        id_state.producer_id,
        id_state.producer_epoch,
        times_out_at_ms(id_state.state, id_state.started_at_ms, id_state.timeout_ms),
        maker.name if maker.kind == Framework.FLINK else None,
    )


def _overdue(id_state: IdState, context: Context, surroundings: Surroundings) -> Observation:
    due_ms = abort_due_ms(id_state, context.log)
    assert due_ms is not None, "an overdue transaction must have a due time"
    place = place_of(id_state, context)
    # the newest record may be this id's own: a client can still add partitions
    goes_on = surroundings.written_ms.get(id_state.partition, -1) > max(due_ms, id_state.timestamp_ms)
    counts = not goes_on and not place.was_left_behind
    facts = OverdueFacts(
        name=id_state.name,
        partitions=partitions_of(id_state.topics),
        place=place,
        sink=_sink(id_state),
        neighbours_progress=goes_on,
        written_under=id_state.client_transaction_version,
        finalized=context.transaction_version,
        answer=surroundings.answers.get(id_state.transactional_id, Answer.NONE) if counts else Answer.NONE,
    )
    late_ms = context.log.known_until_ms[id_state.partition] - due_ms
    is_sure = late_ms >= CRITICAL_AFTER_MS and not context.log.is_assumed(SCAN_CONFIG)
    due = Evidence(
        due_ms,
        "brokers' configs",
        f"open since {utc(id_state.started_at_ms or 0)}, timeout {duration(id_state.timeout_ms)}; the coordinator"
        f" checks every {duration(context.log.limits.scan_ms)}{_assumed(context)}, so the abort was due by"
        f" {utc(due_ms)}",
    )
    return about_id(
        id_state,
        context,
        kind=Kind.OVERDUE,
        severity=Severity.CRITICAL if late_ms >= CRITICAL_AFTER_MS else Severity.WARNING,
        facts=facts,
        evidence=[due, *_facts_known(id_state, facts, surroundings)],
    )._replace(confidence=Confidence.CERTAIN if is_sure else Confidence.LIKELY)


def _facts_known(id_state: IdState, facts: OverdueFacts, surroundings: Surroundings) -> list[Evidence]:
    """Returns the evidence for two facts on which the advice depends, as far as they hold: another id's record was
    written after the due time; the transaction was written under a version above the finalized one."""
    place, found = facts.place, []
    written_ms = surroundings.written_ms.get(place.partition, -1)
    if facts.neighbours_progress:
        found.append(
            Evidence(written_ms, place.log_partition, "a record of another id was written then, after the due time")
        )
    if facts.is_above_finalized:
        versions = (
            f"written under transaction.version {facts.written_under}; the finalized version is {facts.finalized}"
        )
        found.append(Evidence(id_state.timestamp_ms, "features", versions))
    return found


def stuck(ids: Iterable[IdState], missing: Missing, context: Context) -> list[Observation]:
    """Returns observations of transactions that are stuck in PrepareX. `ids`: ids in PrepareX, the longest in this
    state first. The time in PrepareX counts from the record's timestamp, not from the times inside its value."""
    found = [id_state for id_state in judgeable(ids, context) if is_stuck(id_state, context.log)]
    return bounded(found, lambda id_state: _stuck(id_state, missing.get(id_state.transactional_id), context))


def _stuck(id_state: IdState, missing: tuple[WithoutMarker, ...] | None, context: Context) -> Observation:
    late_ms = context.log.known_until_ms[id_state.partition] - id_state.state_since_ms - STUCK_AFTER_MS
    word = "commit" if id_state.state == PREPARE_COMMIT else "abort"
    evidence = [
        Evidence(
            id_state.state_since_ms,
            "transaction log",
            f"the {word} was decided then; no Complete record followed within {duration(STUCK_AFTER_MS)}",
        )
    ]
    if missing:
        places = ", ".join(map(str, missing[:MOST_LEADERS]))
        more = f" and {len(missing) - MOST_LEADERS:,} more" if len(missing) > MOST_LEADERS else ""
        evidence.append(Evidence(id_state.timestamp_ms, "DescribeTransactions", f"no marker yet on {places}{more}"))
    elif missing is not None:
        evidence.append(Evidence(id_state.timestamp_ms, "coordinator", "reports no partition without a marker"))
    facts = StuckFacts(
        id_state.name,
        id_state.state == PREPARE_COMMIT,
        _names(id_state.topics if missing is None else [(place.topic, place.partition) for place in missing]),
        missing is not None,
        place_of(id_state, context),
        context.may_skip_markers,
    )
    return about_id(
        id_state,
        context,
        kind=Kind.STUCK_COMPLETION,
        severity=Severity.CRITICAL if late_ms >= CRITICAL_AFTER_MS else Severity.WARNING,
        facts=facts,
        evidence=evidence,
    )


def _names(places: Sequence[tuple[str, int]]) -> Names:
    return partitions_of(places) if places else names_of([])
