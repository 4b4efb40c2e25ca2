"""Compares, about once a second, the markers on tailed partitions with the decisions of coordinators. Both come from
the store. Each comparison goes as far as both markers and decisions were read."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from sqlalchemy import Engine

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.marker_audit import Compared, EndedLog, Result, compare
from service.domain.partitions.marker_histories import Decision, SeenMarker
from service.store.engine import open_reader
from service.store.lease import Lease
from service.store.queries.marker_audit import AuditInputs, FirstRecord, Witness, left_over, read_inputs
from service.store.writers.marker_audit import MarkerAuditWriter, Settled, Torn
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.periodic import repeated

log = logging.getLogger("txnscope.audit")

EVERY_S: Final = 1.0
WAITS_MS: Final = 10 * 60_000
"""Maximum time (ms) for which a completed decision waits until the transaction log and the decision's partitions are
read past it. After this time, the decision counts as unseen."""

DAY_MS: Final = 24 * 3_600_000
VIEWS_KEPT: Final = 60


class _Read(NamedTuple):
    """The progress of a partition. `end_asked_at_ms`: when an end offset of the partition was requested. `read_at_ms`:
    when the store noted that the partition was read up to that end offset."""

    end_asked_at_ms: int
    read_at_ms: int


class MarkerAuditor:
    """The audit of one cluster. Decisions, markers and results are in the store. Three things are only in memory, and
    are lost in a restart: how far markers and decisions were read lately, the time since which each completed decision
    waits, and the counts for the daily log line."""

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
        """Compares all decisions that can be compared by now, and returns the number of decisions by result. If the
        inputs are cut or broken (`AuditInputs`), drops them and begins anew: the decisions in them count as unseen.
        Raises what `MarkerAuditWriter.settle` raises."""
        with self._reader.connect() as connection:
            inputs = read_inputs(connection, self._cluster_id)
        self._note(inputs, now_ms)
        if inputs.is_cut or inputs.is_broken:
            self._writer.begin_anew(inputs.decisions)
            self._completed_ms.clear()
            return self._tell(Counter({Result.UNSEEN: len(inputs.decisions)}), now_ms)
        settled = self._settled(inputs, now_ms)
        if settled.results or settled.used or settled.gone or settled.begun or settled.ended:
            self._writer.settle(settled, inputs.witness)
        for decision in settled.results:
            self._completed_ms.pop(decision, None)
        return self._tell(Counter(settled.results.values()), now_ms)

    def _note(self, inputs: AuditInputs, now_ms: int) -> None:
        for progress in inputs.log:
            if progress.next_offset >= progress.end_offset:
                self._log_known_ms[progress.partition] = progress.end_asked_at_ms
        for place, view in inputs.tails.items():
            reads = self._reads[place]
            read = _Read(view.end_asked_at_ms, view.read_at_ms)
            if view.next_offset >= view.end_offset and (not reads or reads[-1] != read):
                reads.append(read)
        self._completed_ms = {decision: self._completed_ms.get(decision, now_ms) for decision in inputs.completed}
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
            if begun is not None and marker.offset < begun:
                used.append(marker)
                continue
            of_producer = by_producer.get(marker.producer_id)
            known_ms = whole_log_ms if of_producer is None else self._log_known_ms.get(of_producer[0].log_partition)
            if begun is not None and known_ms is not None and read_at_ms < known_ms:
                markers[marker.producer_id].append(_from(marker, begun))
        results: dict[Decision, Result] = {}
        told: list[tuple[int, int]] = []
        torn: list[Torn] = []
        ownerless: set[tuple[TopicPartition, int]] = set()
        passed: set[tuple[TopicPartition, int]] = set()
        ended: defaultdict[TopicPartition, list[EndedLog]] = defaultdict(list)
        for ended_log in inputs.ended:
            ended[ended_log.topic_partition].append(ended_log)
        for producer_id in by_producer.keys() | markers.keys():
            decisions = by_producer.get(producer_id, [])
            closed = {decision: frozenset(self._closed(decision, inputs, ended)) for decision in decisions}
            found = compare(decisions, markers.get(producer_id, ()), closed, ended)
            results |= found.results
            torn += _torn(found)
            used += found.used
            done = [decision for decision, _ in found.results]
            late = [
                decision
                for decision in decisions
                if decision not in done and now_ms - self._completed_ms.get(decision, now_ms) > WAITS_MS
            ]
            results |= dict.fromkeys(late, Result.UNSEEN)
            given_up = {place for decision in late for place in decision.participants}
            ownerless |= {(place, producer_id) for place in found.ownerless | given_up}
            passed |= {(place, producer_id) for place in found.passed | given_up}
            last = max((decision.offset for decision in (*done, *late)), default=-1)
            told += [(decision.log_partition, decision.offset) for decision in decisions if decision.offset <= last]
        torn = self._without_left_over(torn, results)
        gone = tuple(place for place in inputs.audited if place not in inputs.tails)
        of_audited = frozenset(one for one in ownerless if one[0] in inputs.audited)
        left = self._ended(inputs, set(told), passed)
        return Settled(results, tuple(told), tuple(torn), tuple(used), gone, self._begun(inputs), of_audited, left)

    def _ended(
        self, inputs: AuditInputs, told: set[tuple[int, int]], passed: set[tuple[TopicPartition, int]]
    ) -> tuple[EndedLog, ...]:
        """Returns the ended logs (`EndedLog`) that change, in their new form. The records of each place and producer id
        in `passed` are removed. The markers of a log are removed together, when every decision to which they may belong
        is known and has a result."""
        whole_ms = self._whole_log_ms(inputs)
        left = [decision for decision in inputs.decisions if (decision.log_partition, decision.offset) not in told]
        changed = []
        for log in inputs.ended:
            place = log.topic_partition
            are_told = whole_ms is not None and whole_ms > log.seen_at_ms
            are_told &= not any(
                decision.after_ms <= log.seen_at_ms and place in decision.participants for decision in left
            )
            unended = tuple(records for records in log.unended if (place, records.producer_id) not in passed)
            now = log._replace(markers=() if are_told else log.markers, unended=unended)
            if now != log:
                changed.append(now)
        return tuple(changed)

    def _whole_log_ms(self, inputs: AuditInputs) -> int | None:
        """Returns the time (ms) up to which the transaction log is known: all records that were written before this
        time are read. Returns None if some partition of the log was never read to its end."""
        known = [self._log_known_ms.get(progress.partition) for progress in inputs.log]
        return min((ms for ms in known if ms is not None), default=None) if None not in known else None

    def _closed(
        self, decision: Decision, inputs: AuditInputs, ended: Mapping[TopicPartition, Sequence[EndedLog]]
    ) -> Iterator[TopicPartition]:
        """Yields the decision's partitions that can be compared. On such a partition, all markers of the decision are
        known, and so is every other decision to which these markers may belong. Also yields the partitions that are not
        read or not compared, because no more will become known about them."""
        completed_ms = self._completed_ms.get(decision)
        known_ms = self._log_known_ms.get(decision.log_partition)
        if completed_ms is None or known_ms is None:
            return
        for place in decision.participants:
            if any(log.seen_at_ms >= known_ms for log in ended.get(place, ())):
                continue
            if (place, known_ms) not in self._asked_ms:
                asked = (read.end_asked_at_ms for read in self._reads.get(place, ()) if read.read_at_ms < known_ms)
                self._asked_ms[place, known_ms] = max(asked, default=-1)
            is_read = self._asked_ms[place, known_ms] > completed_ms
            if is_read or place not in inputs.tails or place not in inputs.audited:
                yield place

    def _without_left_over(self, torn: list[Torn], results: dict[Decision, Result]) -> list[Torn]:
        """Returns the torn transactions without the doubtful ones. Sets the result of the doubtful ones to UNSEEN. A
        torn transaction is doubtful if a finding reports some of its records as left over, because such records may
        belong to an older transaction."""
        if not torn:
            return torn
        with self._reader.connect() as connection:
            older = left_over(connection, self._cluster_id, [first for one in torn for first in _first_records(one)])
        doubtful = {one.decision for one in torn if not older.isdisjoint(_first_records(one))}
        results |= dict.fromkeys(doubtful, Result.UNSEEN)
        return [one for one in torn if one.decision not in doubtful]

    def _begun(self, inputs: AuditInputs) -> dict[TopicPartition, int]:
        """Returns the offset at which the comparison begins, for each tailed partition that is not compared yet. The
        offset is an end offset that was requested after the transaction log had been read to its end. So every decision
        about a transaction with records from this offset on is written after that read, and will be read."""
        if self._whole_since is None:
            return {}
        since_ms, _ = self._whole_since
        return {
            place: view.end_offset
            for place, view in inputs.tails.items()
            if place not in inputs.audited and view.end_asked_at_ms > since_ms and view.next_offset >= view.end_offset
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
    """Returns the line that is logged once a day about the transactions of that day."""
    ended, torn = results.total(), results[Result.TORN]
    verdict = f"{torn:,} torn" if torn else "none torn"
    whole, unseen = results[Result.WHOLE], results[Result.UNSEEN]
    return (
        f"{ended:,} transactions ended within a day on partitions of which every batch is read: {verdict},"
        f" {whole:,} with all markers as decided, {unseen:,} that could not be compared as a whole"
    )


def _from(marker: SeenMarker, begun: int) -> SeenMarker:
    """Returns the marker. If the first record that the marker ended is below `begun`, the marker counts as having ended
    nothing. `begun`: the first offset that is compared."""
    return marker if marker.ends_from >= begun else marker._replace(ends_from=-1)


def _torn(found: Compared) -> Iterator[Torn]:
    for decision, result in found.results:
        if result is not Result.TORN:
            continue
        otherwise = tuple(marker for one, marker in found.contradictions if one == decision)
        gone = tuple(records for records in found.gone if records.decision == decision)
        places = {marker.topic_partition for marker in otherwise} | {part.topic_partition for part in gone}
        own = [marker for marker in found.own[decision] if marker.topic_partition not in places]
        unseen = len(decision.participants) + decision.untailed - len(places) - len(own)
        yield Torn(decision, otherwise, tuple(sorted(own)), unseen, gone)


def _first_records(torn: Torn) -> set[FirstRecord]:
    producer_id = torn.decision.producer_id
    ended = {FirstRecord(*marker.topic_partition, producer_id, marker.ends_from) for marker in torn.otherwise}
    return ended | {FirstRecord(*part.topic_partition, producer_id, part.from_offset) for part in torn.gone}


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
