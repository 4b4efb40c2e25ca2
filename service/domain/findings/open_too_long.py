"""Findings about open transactions: long-running (within their timeout), overdue (timed out and not aborted), stuck
(decided, with markers missing)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from service.domain.applications import FLINK, NOTHING, UNKNOWN, Application, is_two_phase, may_be_two_phase
from service.domain.findings import kinds
from service.domain.findings.conditions import IdState, bounded, coordinator, judgeable, rule_of, with_owner_and_groups
from service.domain.findings.context import SCAN_CONFIG, Context
from service.domain.findings.finding import Evidence, Observation, Subject
from service.domain.findings.formatting import duration, join_partitions, utc
from service.domain.transaction_log.states import (
    NAMES,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    abort_due_at_ms,
    is_time,
    times_out_at_ms,
)

LONG_AFTER_MS: Final = 60_000
"""Limit if no rule sets one: Kafka's default transaction.timeout.ms, after which most transactions would have been
aborted."""

STUCK_AFTER_MS: Final = 10_000
"""Time in PrepareX after which a transaction counts as stuck. Markers take milliseconds; after this long a leader does
not answer."""

NEAR_DEADLINE: Final = 4
"""A transaction of a two-phase sink is near its deadline when a quarter of its timeout, or less, is left."""

Makers = Mapping[bytes, Application]
"""The makers of ids, by id, as far as they were looked up."""

Missing = Mapping[bytes, tuple[tuple[str, int, int], ...]]
"""(topic, partition, leader) without marker yet, by id; only for ids whose coordinator was asked
(DescribeTransactions)."""


class NewestState(Protocol):
    """The fields of an id's newest record that decide whether its transaction is overdue or stuck; `partition`: of the
    transaction log."""

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


def abort_due_ms(one: NewestState, context: Context) -> int | None:
    """Returns the time by which the abort of the transaction has to be in the log; None if it will not time out."""
    return abort_due_at_ms(one.state, one.started_at_ms, one.timeout_ms, context.limits.scan_ms)


def is_overdue(one: NewestState, context: Context) -> bool:
    """Returns whether the transaction is still Ongoing although its abort was due, and the log is known until then."""
    due_ms = abort_due_ms(one, context)
    return due_ms is not None and context.is_known_until(one.partition, due_ms)


def is_stuck(one: NewestState, context: Context) -> bool:
    """Returns whether the transaction was decided, and is not complete although STUCK_AFTER_MS have passed and the log
    is known until then."""
    is_prepared = one.state in (PREPARE_COMMIT, PREPARE_ABORT) and is_time(one.state_since_ms)
    return is_prepared and context.is_known_until(one.partition, one.state_since_ms + STUCK_AFTER_MS)


def long_running(ids: Iterable[IdState], context: Context, makers: Makers = MappingProxyType({})) -> list[Observation]:
    """Returns observations of transactions that are open for long, but still within their timeout. `ids`: those of open
    transactions, oldest first."""
    return bounded(
        [
            one
            for one in long_open(ids, context)
            if _is_long(one, context) or is_two_phase(makers.get(one.transactional_id, NOTHING), one.timeout_ms)
        ],
        lambda one: _long_running(one, makers.get(one.transactional_id, NOTHING), context),
        lambda rest: f"{len(rest):,} more transactions are open for long, within their timeout",
    )


def long_open(ids: Iterable[IdState], context: Context) -> list[IdState]:
    """Returns those of the ids whose transactions are open for long, within their timeout, or, where a two-phase sink
    may have made the id, near their deadline: a long `long_after` must not hide it."""
    return [
        one
        for one in judgeable(ids, context)
        if (_is_long(one, context) or (may_be_two_phase(one.name, one.timeout_ms) and _is_near(one, context)))
        and not is_overdue(one, context)
    ]


def _is_long(one: IdState, context: Context) -> bool:
    if one.state != ONGOING or one.started_at_ms is None or not is_time(one.started_at_ms):
        return False
    long_after = rule_of(one, context).long_after_ms
    limit = LONG_AFTER_MS if long_after is None else long_after
    return context.known_until_ms[one.partition] - one.started_at_ms >= limit


def _long_running(one: IdState, maker: Application, context: Context) -> Observation:
    rule = rule_of(one, context)
    started = one.started_at_ms or 0
    times_out = times_out_at_ms(one.state, one.started_at_ms, one.timeout_ms)
    heals = abort_due_ms(one, context)
    if times_out is None or heals is None:
        ends = "it has no timeout (two-phase commit): only its application ends it"
    else:
        ends = (
            f"it times out at {utc(times_out)}; the coordinator aborts it by {utc(heals)} at the latest, and"
            f" its records are then discarded{context.assumed(SCAN_CONFIG)}"
        )
    evidence = [one.newest_record(), Evidence(started, "transaction log", f"open since {utc(started)}; {ends}")]
    if rule.long_after_ms is not None:
        evidence.append(Evidence(started + rule.long_after_ms, "rules", f"long after {duration(rule.long_after_ms)}"))
    is_sink = is_two_phase(maker, one.timeout_ms)
    is_near = is_sink and _is_near(one, context)
    deadline = f"; at {utc(times_out)} it is aborted unless its job commits it" if is_near and times_out else ""
    return with_owner_and_groups(
        one,
        context,
        Observation(
            kind=kinds.LONG_RUNNING,
            severity=kinds.INFO if rule.long_after_ms is None and not is_near else kinds.WARNING,
            subject=Subject(transactional_id=one.transactional_id),
            title=f"{one.name} has been open since {utc(started)}, within its timeout{deadline}",
            detail=f"read_committed consumers wait behind it on {join_partitions(one.topics)}",
            advice=_sink_advice(one, maker, times_out) if is_sink else _advice(one, maker),
            evidence=tuple(evidence),
            # what the timeout does to a two-phase sink is a loss, and heals nothing
            self_heals_at_ms=None if is_sink else heals,
            log_partition=one.partition,
        ),
    )


def _is_near(one: IdState, context: Context) -> bool:
    times_out_ms = times_out_at_ms(one.state, one.started_at_ms, one.timeout_ms)
    if times_out_ms is None:
        return False
    return times_out_ms - context.known_until_ms[one.partition] <= one.timeout_ms // NEAR_DEADLINE


def _advice(one: IdState, maker: Application) -> str:
    general = (
        "Its application has to commit or abort it. If it is gone, starting it again with the same transactional.id"
        " aborts the transaction at once, and its records are discarded."
    )
    if maker.kind != UNKNOWN or not may_be_two_phase(one.name, one.timeout_ms):
        return general
    return (
        f"{general} If it is a two-phase sink (the id has the form of Apache Flink's), do not start it without its"
        " state: restore the job from its last checkpoint or savepoint, which commits what the checkpoint counts as"
        " delivered."
    )


def _sink_advice(one: IdState, maker: Application, times_out_ms: int | None) -> str:
    """Returns the advice about a transaction that may be pre-committed: its records may be in a checkpoint, which
    counts them as delivered, and then only a commit of this very transaction keeps them (`KafkaCommitter` of
    flink-connector-kafka, KIP-939)."""
    is_flinks = maker.kind == FLINK
    shows = "By the form and use of its id this is a transaction of Apache Flink's" if is_flinks else "This is one of a"
    whose = f"the job with the id prefix {maker.name}" if is_flinks else "its application"
    until = "" if times_out_ms is None else f" before {utc(times_out_ms)}"
    lost = "" if times_out_ms is None else " The abort at the timeout loses them too."
    return (
        f"{shows} two-phase sink. If {whose} runs, its next checkpoint commits it. If it is gone,"
        f" restore it from its last checkpoint or savepoint{until}, or commit the transaction with its producer id"
        f" {one.producer_id} and epoch {one.producer_epoch}. Do not start a producer with this transactional.id, nor"
        " the job without its state: that discards the transaction at once, and records that a checkpoint counts as"
        f" delivered are lost.{lost} The log does not show whether a checkpoint holds it."
    )


def overdue(ids: Iterable[IdState], context: Context) -> list[Observation]:
    """Returns observations of overdue transactions. `ids`: open ones, those due first."""
    due = [(one, due_ms) for one in judgeable(ids, context) if (due_ms := abort_due_ms(one, context)) is not None]
    return bounded(
        [(one, due_ms) for one, due_ms in due if context.is_known_until(one.partition, due_ms)],
        lambda found: _overdue(*found, context),
        lambda rest: f"{len(rest):,} more transactions are past their timeout and not aborted",
    )


def _overdue(one: IdState, due_ms: int, context: Context) -> Observation:
    late_ms = context.known_until_ms[one.partition] - due_ms
    is_sure = late_ms >= kinds.CRITICAL_AFTER_MS and SCAN_CONFIG not in context.limits.assumed
    due = Evidence(
        due_ms,
        "brokers' configs",
        f"open since {utc(one.started_at_ms or 0)}, timeout {duration(one.timeout_ms)}; the coordinator checks"
        f" every {duration(context.limits.scan_ms)}{context.assumed(SCAN_CONFIG)}: its abort was due by"
        f" {utc(due_ms)}",
    )
    return with_owner_and_groups(
        one,
        context,
        Observation(
            kind=kinds.OVERDUE,
            severity=kinds.CRITICAL if late_ms >= kinds.CRITICAL_AFTER_MS else kinds.WARNING,
            subject=Subject(transactional_id=one.transactional_id),
            title=f"{one.name} is overdue: its transaction timed out, and the coordinator has not aborted it",
            detail=f"it blocks {join_partitions(one.topics)}",
            advice=f"Look at {coordinator(one, context)}: it does not abort timed-out transactions. Causes: a"
            " coordinator that failed to load its partition, a partition without leader or below min.insync.replicas,"
            " or clocks that differ. Restarting the application does not help before the coordinator works.",
            evidence=(one.newest_record(), due),
            confidence=kinds.CERTAIN if is_sure else kinds.LIKELY,
            log_partition=one.partition,
        ),
    )


def stuck(ids: Iterable[IdState], missing: Missing, context: Context) -> list[Observation]:
    """Returns observations of transactions that are stuck in PrepareX. `ids`: ids in PrepareX, the longest there first.
    Their age is taken from the record's timestamp, not from the times inside its value."""
    found = [one for one in judgeable(ids, context) if is_stuck(one, context)]
    return bounded(
        found,
        lambda one: _stuck(one, missing.get(one.transactional_id), context),
        lambda rest: f"{len(rest):,} more transactions are decided but not complete",
    )


def _stuck(one: IdState, missing: tuple[tuple[str, int, int], ...] | None, context: Context) -> Observation:
    late_ms = context.known_until_ms[one.partition] - one.state_since_ms - STUCK_AFTER_MS
    word = "commit" if one.state == PREPARE_COMMIT else "abort"
    places = [place[:2] for place in missing] if missing else one.topics
    which = "of" if missing else "of at least one of"
    evidence = [
        one.newest_record(),
        Evidence(
            one.state_since_ms,
            "transaction log",
            f"the {word} was decided then; no Complete record followed within {duration(STUCK_AFTER_MS)}",
        ),
    ]
    if missing:
        leaders = ", ".join(f"{t}-{p} (leader {'none' if n < 0 else f'broker {n}'})" for t, p, n in missing)
        evidence.append(Evidence(one.timestamp_ms, "DescribeTransactions", f"no marker yet on {leaders}"))
    return with_owner_and_groups(
        one,
        context,
        Observation(
            kind=kinds.STUCK_COMPLETION,
            severity=kinds.CRITICAL if late_ms >= kinds.CRITICAL_AFTER_MS else kinds.WARNING,
            subject=Subject(transactional_id=one.transactional_id),
            title=f"{one.name} is stuck in {NAMES[one.state]}: the leader {which} {join_partitions(places)} has not"
            " acknowledged its marker",
            advice="Bring the leaders of these partitions back, or above min.insync.replicas; the coordinator retries"
            " the markers without limit. If these leaders are well, move the leadership of the log partition:"
            f" {coordinator(one, context)} may have given up. The timeout does not end it, and restarting the"
            " application does not help.",
            evidence=tuple(evidence),
            log_partition=one.partition,
        ),
    )
