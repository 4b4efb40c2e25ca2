"""Makes the Prometheus series of one cluster from the facts in the store, which are read anew for each page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple

from service.domain.canary.rounds import ALWAYS_COUNTED, BOUNDS_US, Latencies
from service.domain.findings.blockers import SAMPLE_FRESH_MS
from service.domain.findings.catalogue import statuses_of
from service.domain.findings.kinds import Kind, Status
from service.domain.partitions.marker_audit import Result
from service.domain.source_state import COVERED_WITHIN_MS, SourceName
from service.domain.transaction_log import outcomes
from service.domain.transaction_log.outcomes import BATCH, BOUNDS_MS, DETECTION, MARKER
from service.domain.transaction_log.states import EXPIRED, NAMES, OPEN
from service.metrics import catalogue
from service.metrics.catalogue import SERIES_DROPPED, Metric
from service.processes.identity import host_and_pid
from service.store.escaped_text import display_id
from service.store.queries.applications import worst_first
from service.store.receivers import ReceiverState
from service.store.schema import history as stored
from service.store.schema.history import AUDITED, CONFIRMED, CONTRADICTIONS, DECODE_ERRORS, SUM
from service.views.cluster.canary import Health
from service.views.cluster.metric_facts import ClusterFacts
from service.views.cluster.sources import coordinators_of
from service.wire.errors import DecodeError

OUTCOMES: Final = ("commit", "abort")


APPLICATIONS_NAMED: Final = 50
"""Maximum number of applications with series. Each application has a series for each state, for commits, for each cause
of aborts, and for its oldest open transaction."""


class Distribution(NamedTuple):
    """The value of a histogram. `buckets`: pairs of an upper bound (as Prometheus writes the bound) and the number of
    values up to this bound; the last bound is "+Inf"."""

    buckets: tuple[tuple[str, float], ...]
    sum: float


class Series(NamedTuple):
    """One value of a metric. `labels` are the values of `metric.labels`, in that order; times are in seconds."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Distribution

    @property
    def size(self) -> int:
        """Returns the number of series that Prometheus makes of this value: a histogram has one for each bucket, the
        sum and the count.
        """
        return len(self.value.buckets) + 2 if isinstance(self.value, Distribution) else 1


def bounded(of_clusters: Sequence[tuple[str, Iterable[Series]]], limit: int) -> list[tuple[str, Series]]:
    """Returns the kept series of all clusters as (cluster, series), with one SERIES_DROPPED for each cluster. They make
    at most `limit` series of Prometheus, unless those that are always kept exceed the limit.

    Series of metrics without `many` are always kept. The rest of the limit is shared fairly among the clusters. Of the
    series of metrics with `many`, a cluster keeps the first ones, because the worst series come first. A SERIES_DROPPED
    in `of_clusters` counts series that the caller has left out already.
    """
    kept: list[tuple[str, Series]] = []
    rest: list[tuple[str, list[Series], int]] = []
    for cluster, all_series in of_clusters:
        some: list[Series] = []
        unread = 0
        for series in all_series:
            if series.metric.many:
                some.append(series)
            elif series.metric is SERIES_DROPPED:
                assert not isinstance(series.value, Distribution)
                unread += int(series.value)
            else:
                kept.append((cluster, series))
        rest.append((cluster, _interleaved(some), unread))
    room = limit - sum(one.size for _, one in kept) - len(rest)
    rest.sort(key=lambda of_cluster: len(of_cluster[1]))
    for index, (cluster, some, unread) in enumerate(rest):
        share = max(room // (len(rest) - index), 0)
        kept += [(cluster, one) for one in some[:share]]
        kept.append((cluster, Series(SERIES_DROPPED, (), max(len(some) - share, 0) + unread)))
        room -= min(share, len(some))
    return kept


def _interleaved(some: Iterable[Series]) -> list[Series]:
    """Returns the series in a new order: the first of every metric, then the second of every metric, and so on."""
    by_metric: dict[str, list[Series]] = {}
    for series in some:
        by_metric.setdefault(series.metric.name, []).append(series)
    longest = max(map(len, by_metric.values()), default=0)
    return list(
        chain.from_iterable([of[rank] for of in by_metric.values() if rank < len(of)] for rank in range(longest))
    )


def applications(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the series of the applications with the most failed transactions. Includes series with the value 0."""
    shown = worst_first(facts.applications)
    states = {state: name for state, name in NAMES.items() if state != EXPIRED}
    for application_row in shown[:APPLICATIONS_NAMED]:
        for state, name in states.items():
            yield Series(
                catalogue.APPLICATION_TRANSACTIONS, (application_row.name, name), application_row.states.get(state, 0)
            )
        yield Series(
            catalogue.APPLICATION_COMPLETED, (application_row.name, "commit", "commit"), application_row.commits
        )
        for cause, number in application_row.aborts._asdict().items():
            yield Series(catalogue.APPLICATION_COMPLETED, (application_row.name, "abort", cause), number)
        yield Series(
            catalogue.APPLICATION_OLDEST_OPEN, (application_row.name,), (application_row.oldest_open_ms or 0) / 1000
        )
    of_each = len(states) + len(OUTCOMES) - 1 + len(CAUSES) + 1
    yield Series(catalogue.SERIES_DROPPED, (), max(len(shown) - APPLICATIONS_NAMED, 0) * of_each)


def durations(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the histograms of durations, in seconds. Commits and aborts share the histogram of markers, because
    writing either marker is the same work."""
    for outcome in OUTCOMES:
        yield Series(catalogue.DURATION, (outcome,), _distribution(facts.counters, outcomes.OPEN, (outcome,)))
    yield Series(catalogue.MARKER_DURATION, (), _distribution(facts.counters, MARKER, OUTCOMES))
    yield Series(catalogue.DETECTION, (), _distribution(facts.counters, DETECTION, (CONFIRMED,)))
    for source in sorted({SourceName.TRANSACTION_LOG, SourceName.PARTITIONS, *facts.statuses}):
        yield Series(catalogue.BATCH_DURATION, (source,), _distribution(facts.counters, BATCH, (source,)))


def _distribution(counters: Mapping[tuple[str, str], int], kind: str, outcomes: tuple[str, ...]) -> Distribution:
    """Returns a histogram from the counters of `service.store.writers.history`, summed over the outcomes."""

    def total(label: str) -> int:
        return sum(counters.get((f"{kind}_ms_{outcome}", label), 0) for outcome in outcomes)

    bounds = [*(str(ms / 1000) for ms in BOUNDS_MS[kind]), "+Inf"]
    counts = accumulate(total(str(index)) for index in range(len(bounds)))
    return Distribution(tuple(zip(bounds, map(float, counts), strict=True)), total(SUM) / 1000)


def clusters(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the series of the cluster as a whole: its features, and the instance that stores its data."""
    features = facts.description.get("features") or {}
    levels = (str(features.get(name, "")) for name in ("transaction.version", "metadata.version"))
    yield Series(catalogue.CLUSTER_INFO, (facts.kafka_cluster_id, *levels), 1)
    if facts.holder is not None:
        yield Series(catalogue.LEASE_HELD, (host_and_pid(facts.holder.owner),), int(not facts.holder.released))


def coordinators(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the series of coordinators' partitions, the worst first: those with the most lag, then those with the most
    open transactions.
    """
    found = coordinators_of(facts.logs, facts.states)
    for coordinator in sorted(found, key=lambda one: (-one.log.lag, -one.open, one.log.partition)):
        labels = (str(coordinator.log.partition),)
        yield Series(catalogue.COORDINATOR_IDS, labels, coordinator.ids)
        yield Series(catalogue.COORDINATOR_OPEN, labels, coordinator.open)
        yield Series(catalogue.COORDINATOR_LAG, labels, coordinator.log.lag)


def canary(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the series of the canary: its rounds at each coordinator, whether the newest round succeeded, and the
    number of partitions without a leader."""
    found = facts.canary
    if found is None:
        return
    if found.is_alive:
        yield Series(catalogue.CANARY_LEADERLESS, (), found.canary.leaderless)
    for coordinator in found.coordinators:
        broker = (str(coordinator.broker),)
        yield Series(catalogue.CANARY_COMMIT, broker, _latencies(coordinator.rounds.commits))
        yield Series(catalogue.CANARY_VISIBLE, broker, _latencies(coordinator.rounds.visibles))
        for error in sorted({*ALWAYS_COUNTED, *coordinator.rounds.failures}):
            yield Series(catalogue.CANARY_FAILURES, (*broker, error), coordinator.rounds.failures.get(error, 0))
        if coordinator.health in (Health.RUNS, Health.FAILS):
            yield Series(catalogue.CANARY_RUNS, broker, int(coordinator.health == Health.RUNS))


def _latencies(found: Latencies) -> Distribution:
    bounds = [*(str(us / 1_000_000) for us in BOUNDS_US), "+Inf"]
    counts = map(float, accumulate(found.counts))
    return Distribution(tuple(zip(bounds, counts, strict=True)), found.sum_us / 1_000_000)


def findings(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the counts of findings by kind and status, of conditions and events that a bound left out, of
    contradictions, and of audited transactions. Includes counts of 0."""
    for kind in Kind:
        for status in statuses_of(kind):
            yield Series(catalogue.FINDINGS, (kind, status), facts.findings.get((kind, status), 0))
    for kind in Kind:
        yield Series(catalogue.FINDINGS_TRUNCATED, (kind,), facts.truncated.get(kind, 0))
    yield Series(catalogue.CONTRADICTIONS, (), facts.counters.get((CONTRADICTIONS, ""), 0))
    for result in Result:
        yield Series(catalogue.AUDITED, (result.value,), facts.counters.get((AUDITED, result.value), 0))


def groups(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the blocked groups, those behind the longest stalled LSO first."""
    blocked = [one for one in facts.affected_groups if one.is_blocked]
    for affected_group in sorted(blocked, key=lambda group: (group.stalled_since_ms, group.key)):
        group, topic, partition = affected_group.key
        yield Series(catalogue.GROUP_BLOCKED, (group, topic, str(partition)), 1)


_OF_ONE: Final = (
    catalogue.PARTITION_LSO,
    catalogue.PARTITION_HIGH_WATERMARK,
    catalogue.PARTITION_LSO_LAG,
    catalogue.PARTITION_LSO_LAST_ADVANCE,
)


def partitions(facts: ClusterFacts, now_ms: int) -> Iterator[Series]:
    """Yields the series of hanging transactions and of data partitions, the longest stalled partitions first. If the
    last sample is older than SAMPLE_FRESH_MS, no partition counts as judged."""
    yield Series(catalogue.HANGING, (), facts.findings.get((Kind.HANGING, Status.CONFIRMED), 0))
    for finding in facts.hanging:
        subject = finding.subject
        name = "" if subject.transactional_id is None else display_id(subject.transactional_id)
        labels = (finding.id, subject.topic or "", str(subject.partition), name, finding.observation.owner or "")
        yield Series(catalogue.HANGING_INFO, labels, 1)
        muted_until_ms = finding.observation.muted_until_ms or 0
        if muted_until_ms > now_ms:
            yield Series(catalogue.HANGING_MUTED_UNTIL, (finding.id,), muted_until_ms / 1000)
    is_fresh = now_ms - (facts.coverage.observed_at_ms or 0) <= SAMPLE_FRESH_MS
    judged = facts.coverage.judged if is_fresh else 0
    yield Series(catalogue.PARTITIONS, ("yes",), judged)
    yield Series(catalogue.PARTITIONS, ("no",), facts.coverage.watched - judged)
    yield Series(catalogue.PARTITIONS_BLOCKED, (), facts.coverage.blocked)
    for (topic, partition), ends in facts.stalled.items():
        values = (ends.last_stable_offset, ends.high_watermark, ends.lag, (ends.stalled_since_ms or 0) / 1000)
        for metric, value in zip(_OF_ONE, values, strict=True):
            yield Series(metric, (topic, str(partition)), value)
    unread = facts.coverage.blocked - len(facts.stalled)
    yield Series(catalogue.SERIES_DROPPED, (), max(unread, 0) * len(_OF_ONE))


REASONS: Final = tuple(sorted(error.reason for error in DecodeError.__subclasses__()))


def pipeline(facts: ClusterFacts, now_ms: int) -> Iterator[Series]:
    """Yields the series of each source; the time of a source that was never read is 0. Data partitions are sampled, not
    read in order, so they have no lag and no counts."""
    yield from _looked_at(facts, now_ms)
    for source in sorted({SourceName.TRANSACTION_LOG, *facts.statuses} - {SourceName.PARTITIONS}):
        logs = [log for log in facts.logs if log.source == source]
        status = facts.statuses.get(source)
        answering = sum(now_ms - log.end_asked_at_ms <= COVERED_WITHIN_MS for log in logs)
        as_of_ms = (status and status.as_of_ms) or 0
        yield Series(catalogue.LAST_SUCCESS, (source,), as_of_ms / 1000)
        yield Series(catalogue.LAG, (source,), sum(log.lag for log in logs))
        yield Series(catalogue.RECORDS, (source,), sum(log.records for log in logs))
        yield Series(catalogue.BYTES, (source,), sum(log.bytes for log in logs))
        yield Series(catalogue.COVERAGE, (source,), _ratio(answering, len(logs), as_of_ms, now_ms))
    counted = {label: count for (name, label), count in facts.counters.items() if name == DECODE_ERRORS}
    for reason in sorted({*REASONS, *counted}):
        yield Series(catalogue.DECODE_ERRORS, (SourceName.TRANSACTION_LOG, reason), counted.get(reason, 0))


def _looked_at(facts: ClusterFacts, now_ms: int) -> Iterator[Series]:
    status = facts.statuses.get(SourceName.PARTITIONS)
    as_of_ms = (status and status.as_of_ms) or 0
    observed_at_ms = facts.coverage.observed_at_ms or 0
    is_fresh = now_ms - observed_at_ms <= COVERED_WITHIN_MS
    answering = facts.coverage.answering if is_fresh else 0
    ratio = 0 if facts.coverage.hides_all else _ratio(answering, facts.coverage.watched, observed_at_ms, now_ms)
    yield Series(catalogue.LAST_SUCCESS, (SourceName.PARTITIONS,), as_of_ms / 1000)
    yield Series(catalogue.COVERAGE, (SourceName.PARTITIONS,), ratio)


def _ratio(answering: int, partitions: int, as_of_ms: int, now_ms: int) -> float:
    """Returns the share of partitions that answered. If there are no partitions, returns 1 while the source answers,
    else 0."""
    return answering / partitions if partitions else float(now_ms - as_of_ms <= COVERED_WITHIN_MS)


CAUSES: Final = ("client", "timeout", "fenced", "admin", "unattributed")


def receivers(states: Iterable[ReceiverState]) -> Iterator[Series]:
    """Yields the series of the receivers of notifications. These series have no label `cluster`."""
    for state in states:
        yield Series(catalogue.NOTIFICATIONS, (state.name, "delivered"), state.delivered)
        yield Series(catalogue.NOTIFICATIONS, (state.name, "failed"), state.failed)
        yield Series(catalogue.NOTIFICATIONS_PENDING, (state.name,), state.pending)
        yield Series(catalogue.NOTIFICATIONS_DROPPED, (state.name,), state.dropped)


def transactions(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the series of ids and transactions: ids by state, ended transactions by outcome and cause, expiring and
    expired ids, new producer ids, the highest epochs, and the oldest open transactions."""
    ids: Counter[int] = Counter()
    for place in facts.states:
        ids[place.state] += place.ids
    for state, name in NAMES.items():
        if state != EXPIRED:
            yield Series(catalogue.TRANSACTIONS, (name,), ids[state])
    yield Series(catalogue.TRANSACTIONAL_IDS, (), sum(ids.values()) - ids[EXPIRED])
    aborts = {cause: facts.counters.get((f"aborts_{cause}", ""), 0) for cause in CAUSES}
    yield Series(catalogue.COMPLETED, ("commit",), facts.counters.get((stored.COMMITS, ""), 0))
    yield Series(catalogue.COMPLETED, ("abort",), facts.counters.get((stored.ABORTS, ""), 0))
    for cause, count in aborts.items():
        yield Series(catalogue.ABORTS, (cause,), count)
    for within, count in facts.expiring.items():
        yield Series(catalogue.EXPIRING, (within,), count)
    for protocol, epoch in facts.highest_epochs.items():
        yield Series(catalogue.EPOCH_MAX, (str(protocol),), epoch)
    yield Series(catalogue.EXPIRED, (), facts.counters.get((stored.EXPIRED, ""), 0))
    yield Series(catalogue.PRODUCER_IDS, (), facts.counters.get((stored.PRODUCER_IDS_ASSIGNED, ""), 0))
    for state in sorted(OPEN):
        yield Series(catalogue.OLDEST_STATE_ENTRY, (NAMES[state],), facts.oldest.get(state, 0) / 1000)
    yield Series(catalogue.FENCED, (), aborts["fenced"] + aborts["admin"])
    for display, started_at_ms in facts.top_open:
        yield Series(catalogue.TOP_OPEN, (display,), started_at_ms / 1000)
