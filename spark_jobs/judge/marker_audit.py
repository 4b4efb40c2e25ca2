"""Compares the markers on tailed partitions with the decisions of coordinators, about once a second: what the store has
of both sides, as far as both were read."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from sqlalchemy import Engine

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.marker_audit import Compared, Decision, Result, SeenMarker, compare
from service.store.engine import open_reader
from service.store.lease import Lease
from service.store.queries.marker_audit import AuditInputs, TailView, Witness, known_otherwise, read_inputs
from service.store.writers.marker_audit import MarkerAuditWriter, Settled, Torn, contradictions_of
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.periodic import repeated

log = logging.getLogger("txnscope.audit")

EVERY_S: Final = 1.0
WAITS_MS: Final = 10 * 60_000
"""Longest time for which a decision waits until both sides were read past it; then it counts as unseen."""

DAY_MS: Final = 24 * 3_600_000
VIEWS_KEPT: Final = 60


class _Read(NamedTuple):
    """A partition was read to an end that was requested at `end_asked_at_ms`; that was stored at `read_at_ms`."""

    end_asked_at_ms: int
    read_at_ms: int


class MarkerAuditor:
    """The audit of one cluster. Keeps how far both sides were read lately; everything else is in the store, so that a
    restart changes no result."""

    def __init__(self, reader: Engine, writer: MarkerAuditWriter, cluster_id: int) -> None:
        self._reader, self._writer, self._cluster_id = reader, writer, cluster_id
        self._log_known_ms: dict[int, int] = {}
        self._reads: defaultdict[TopicPartition, deque[_Read]] = defaultdict(lambda: deque(maxlen=VIEWS_KEPT))
        self._completed_ms: dict[Decision, int] = {}
        self._asked_ms: dict[tuple[TopicPartition, int], int] = {}
        self._whole_since: tuple[int, Witness] | None = None
        self._since_ms: int | None = None
        self._told_at_ms = 0
        self._results: Counter[Result] = Counter()

    def audit(self, now_ms: int) -> Counter[Result]:
        """Compares what can be compared by now, and returns the results. Raises as `MarkerAuditWriter.settle`."""
        with self._reader.connect() as connection:
            inputs = read_inputs(connection, self._cluster_id)
        self._note(inputs, now_ms)
        if inputs.is_cut or any(witness != inputs.witness for _, witness in inputs.audited.values()):
            self._writer.begin_anew(inputs.decisions)
            self._completed_ms.clear()
            return self._tell(Counter({Result.UNSEEN: len(inputs.decisions)}), now_ms)
        settled = self._settled(inputs, now_ms)
        if settled.results or settled.used or settled.gone or settled.begun:
            self._writer.settle(settled, inputs.witness)
        for decision in settled.results:
            self._completed_ms.pop(decision, None)
        return self._tell(Counter(settled.results.values()), now_ms)

    def _note(self, inputs: AuditInputs, now_ms: int) -> None:
        for one in inputs.log:
            if one.next_offset >= one.end_offset:
                self._log_known_ms[one.partition] = one.end_asked_at_ms
        for place, view in inputs.tails.items():
            reads = self._reads[place]
            read = _Read(view.end_asked_at_ms, view.read_at_ms)
            if view.next_offset >= view.end_offset and (not reads or reads[-1] != read):
                reads.append(read)
        self._completed_ms = {one: self._completed_ms.get(one, now_ms) for one in inputs.completed}
        self._asked_ms.clear()
        whole_ms = self._whole_log_ms(inputs)
        if self._whole_since is None or self._whole_since[1] != inputs.witness:
            self._whole_since = None if whole_ms is None else (whole_ms, inputs.witness)

    def _settled(self, inputs: AuditInputs, now_ms: int) -> Settled:
        whole_log_ms = self._whole_log_ms(inputs)
        by_producer: defaultdict[int, list[Decision]] = defaultdict(list)
        for decision in inputs.decisions:
            by_producer[decision.producer_id].append(decision)
        markers: defaultdict[int, list[SeenMarker]] = defaultdict(list)
        used: list[SeenMarker] = []
        for marker, read_at_ms in inputs.markers:
            begun = inputs.audited.get(marker.topic_partition)
            if begun is not None and marker.offset < begun[0]:
                used.append(marker)
                continue
            of_producer = by_producer.get(marker.producer_id)
            known_ms = whole_log_ms if of_producer is None else self._log_known_ms.get(of_producer[0].log_partition)
            if begun is not None and known_ms is not None and read_at_ms < known_ms:
                markers[marker.producer_id].append(_from(marker, begun[0]))
        results: dict[Decision, Result] = {}
        told: list[tuple[int, int]] = []
        torn: list[Torn] = []
        for producer_id in by_producer.keys() | markers.keys():
            decisions = by_producer.get(producer_id, [])
            closed = {one: frozenset(self._closed(one, inputs)) for one in decisions}
            found = compare(decisions, markers.get(producer_id, ()), closed)
            results |= found.results
            torn += _torn(found)
            used += found.used
            done = [one for one, _ in found.results]
            late = _late(decisions, done, self._completed_ms, now_ms)
            results |= dict.fromkeys(late, Result.UNSEEN)
            last = max((one.offset for one in (*done, *late)), default=-1)
            told += [(one.log_partition, one.offset) for one in decisions if one.offset <= last]
        torn = self._without_left_over(torn, results)
        gone = tuple(place for place in inputs.audited if place not in inputs.tails)
        return Settled(results, tuple(told), tuple(torn), tuple(used), gone, self._begun(inputs))

    def _whole_log_ms(self, inputs: AuditInputs) -> int | None:
        """Returns the time before which everything that was appended to the transaction log is read; None if a part of
        it was never read to its end."""
        known = [self._log_known_ms.get(one.partition) for one in inputs.log]
        return min((ms for ms in known if ms is not None), default=None) if None not in known else None

    def _closed(self, one: Decision, inputs: AuditInputs) -> Iterator[TopicPartition]:
        """Yields the partitions on which all markers of the decision are known, and with them all decisions of these
        markers; also partitions on which nothing can be told any more."""
        completed_ms = self._completed_ms.get(one)
        known_ms = self._log_known_ms.get(one.log_partition)
        if completed_ms is None or known_ms is None:
            return
        for place in one.participants:
            if (place, known_ms) not in self._asked_ms:
                asked = (read.end_asked_at_ms for read in self._reads.get(place, ()) if read.read_at_ms < known_ms)
                self._asked_ms[place, known_ms] = max(asked, default=-1)
            is_read = self._asked_ms[place, known_ms] > completed_ms
            if is_read or place not in inputs.tails or place not in inputs.audited:
                yield place

    def _without_left_over(self, torn: list[Torn], results: dict[Decision, Result]) -> list[Torn]:
        """Returns the torn transactions without those whose marker may have ended older records only."""
        if not torn:
            return torn
        with self._reader.connect() as connection:
            explained = known_otherwise(connection, self._cluster_id, contradictions_of(torn))
        doubtful = {one.decision for one in explained}
        results |= dict.fromkeys(doubtful, Result.UNSEEN)
        return [one for one in torn if one.decision not in doubtful]

    def _begun(self, inputs: AuditInputs) -> dict[TopicPartition, int]:
        """Returns the offsets from which on partitions are compared: an end that was requested after the log had been
        read to an end, so that every transaction with records from there on is decided later, and is read."""
        if self._whole_since is None:
            return {}
        since_ms, _ = self._whole_since
        return {
            place: view.end_offset
            for place, view in inputs.tails.items()
            if place not in inputs.audited and _is_after(view, since_ms)
        }

    def _tell(self, results: Counter[Result], now_ms: int) -> Counter[Result]:
        if self._since_ms is None:
            self._since_ms = self._told_at_ms = now_ms
        self._results.update(results)
        if now_ms - self._told_at_ms >= DAY_MS:
            log.info("%s", daily_line(self._results))
            self._results.clear()
            self._told_at_ms = now_ms
        return results


def daily_line(results: Counter[Result]) -> str:
    """Returns the line of the log about the transactions of a day."""
    ended, torn = results.total(), results[Result.TORN]
    verdict = f"{torn:,} torn" if torn else "none torn"
    whole, unseen = results[Result.WHOLE], results[Result.UNSEEN]
    return (
        f"{ended:,} transactions ended on tailed partitions within a day: {verdict}, {whole:,} whole,"
        f" {unseen:,} not seen as a whole"
    )


def _is_after(view: TailView, ms: int) -> bool:
    return view.end_asked_at_ms > ms and view.next_offset >= view.end_offset


def _from(marker: SeenMarker, begun: int) -> SeenMarker:
    """Returns the marker; what it ended of the part that is not compared counts as nothing."""
    return marker if marker.ends_from >= begun else marker._replace(ends_from=-1)


def _torn(found: Compared) -> Iterator[Torn]:
    by_decision: defaultdict[Decision, list[SeenMarker]] = defaultdict(list)
    for decision, marker in found.contradictions:
        by_decision[decision].append(marker)
    for decision, otherwise in by_decision.items():
        places = {marker.topic_partition for marker in otherwise}
        own = [marker for marker in found.own.get(decision, ()) if marker.topic_partition not in places]
        unseen = len(decision.participants) + decision.untailed - len(places) - len(own)
        yield Torn(decision, tuple(otherwise), tuple(sorted(own)), unseen)


def _late(
    decisions: Sequence[Decision], told: Sequence[Decision], completed_ms: dict[Decision, int], now_ms: int
) -> list[Decision]:
    """Returns the decisions that were completed long ago, and still cannot be compared."""
    late = [one for one in decisions if now_ms - completed_ms.get(one, now_ms) > WAITS_MS]
    return [one for one in late if one not in told]


@contextmanager
def auditing_markers(store: str, engine: Engine, lease: Lease, liveness: Liveness) -> Iterator[None]:
    """Audits in the background until the block ends or the lease is lost."""
    reader = open_reader(store)
    auditor = MarkerAuditor(reader, MarkerAuditWriter(engine, lease), lease.cluster_id)

    def work(now_ms: int) -> float:
        auditor.audit(now_ms)
        return EVERY_S

    try:
        with repeated("the audit of markers", work, liveness):
            yield
    finally:
        with suppress(Exception):
            reader.dispose()
