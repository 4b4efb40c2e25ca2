"""Samples all watched partitions again and again, and decides what the next micro-batch reports and reads.

A partition is reported at once when its stall begins, moves or ends, when it is deleted, and when it stops or begins to
answer. Other changes of a stalled partition are reported once a second. Other changes of any other partition, such as
the offsets of a busy one, are reported every few seconds. If they were reported at once, 10,000 busy partitions,
sampled four times a second, would make 40,000 rows a second without any news. All partitions, changed or not, are
reported twice a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.partitions.facts import PartitionEnds, PartitionObservation, PartitionsBatch, StallClock
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import PartitionsUnresponsive
from service.domain.transaction_log.states import TOPIC as LOG
from service.domain.worlds.order import LogEnd
from service.kafka.cluster import Leader, TopicLayout
from service.kafka.ends import Ends
from service.kafka.errors import KafkaFailure
from spark_jobs.source.reader_settings import WatchedTopics
from spark_jobs.source.requests import Brokers, Place
from spark_jobs.source.watched import Rounds, Urgency, WatchedPartition, is_over

LAYOUT_EVERY_MS: Final = 2_000
LAYOUT_SOON_MS: Final = 1_000
"""Time (ms) between two requests for the layouts (the leaders of all partitions) while a partition does not answer.
Another broker may have become its leader."""
LOG_STARTS_EVERY_MS: Final = 10_000
FULL_EVERY_MS: Final = 30_000
HEARTBEAT_MS: Final = 1_000
READ_AGAIN_MS: Final = 1_500
"""Pause (ms) between two reads of a stalled partition: a bit less than two heartbeats, so that every other heartbeat
reads the partition."""
REPORTS_AT_ONCE: Final = 2_000
READS_AT_ONCE: Final = 2_000
_CHECKS_AT_ONCE: Final = 20
"""Maximum number of topics per refresh that are requested by name because they are no longer listed. The others follow
in later refreshes."""


class Sample(NamedTuple):
    """One micro-batch. `seen`: the observations to report; `requests`: the stalled partitions that the tasks of the
    micro-batch have to read."""

    seen: PartitionsBatch
    requests: tuple[PartitionEnds, ...] = ()


class Sampler:
    """Samples the watched partitions. Call `observe` as often as wanted, and `next_sample` whenever `is_due` returns
    True. Time comes from `now_ms`."""

    def __init__(
        self, brokers: Brokers, watch: WatchedTopics, clocks: Iterable[StallClock], now_ms: Callable[[], int]
    ) -> None:
        self._brokers, self._watch, self._now_ms = brokers, watch, now_ms
        self._clocks = {(clock.topic, clock.partition): clock for clock in clocks}
        self._layouts: dict[str, TopicLayout] = {}
        self._layouts_at_ms = self._starts_at_ms = self._full_at_ms = self._reported_at_ms = 0
        self._observed_at_ms = 0
        self._not_covered = self._next_check = 0
        self._failure: Reason | None = None
        self._rounds = Rounds()
        self._log: TopicLayout | None = None
        self._log_ends: dict[int, LogEnd] = {}
        self._watched: dict[Place, WatchedPartition] = {}
        self._unreported: dict[Place, WatchedPartition] = {}
        self._stalled: dict[Place, WatchedPartition] = {}
        self._unresponsive: dict[Place, WatchedPartition] = {}
        self._removed: list[PartitionObservation] = []
        self._is_urgent = False

    def observe(self) -> None:
        """Samples all partitions once. A failure of Kafka is not raised. `next_sample` reports the failure as trouble,
        unless `observe` succeeds again before that."""
        try:
            every_ms = LAYOUT_SOON_MS if self._unresponsive else LAYOUT_EVERY_MS
            if is_over(self._layouts_at_ms, every_ms, self._now_ms()):
                self._refresh()
            asked_at_ms = self._now_ms()
            with_start = is_over(self._starts_at_ms, LOG_STARTS_EVERY_MS, asked_at_ms)
            self._rounds.begin()
            layouts = self._layouts if self._log is None else self._layouts | {LOG: self._log}
            found = self._brokers.ends(layouts, with_start=with_start)
            if self._log is not None:
                self._note_log_ends(self._log, found)
            if with_start:
                self._starts_at_ms = asked_at_ms
            stalled = self._apply_ends(found, asked_at_ms, with_start=with_start)
            if stalled:
                self._update_log_starts(stalled)
            self._observed_at_ms, self._failure = asked_at_ms, None
        except KafkaFailure as e:
            self._layouts_at_ms = 0
            self._failure = e.reason

    def is_due(self) -> bool:
        """Returns True if a micro-batch is wanted now: there is urgent news, or a second has passed since the last
        report."""
        return self._is_urgent or is_over(self._reported_at_ms, HEARTBEAT_MS, self._now_ms())

    def next_sample(self) -> Sample:
        """Returns the sample to report now. Every change is reported once."""
        now = self._reported_at_ms = self._now_ms()
        is_full = self._failure is None and is_over(self._full_at_ms, FULL_EVERY_MS, now)
        if is_full:
            self._full_at_ms = now
            chosen = list(self._watched.values())
            self._unreported.clear()
        else:
            chosen = self._choose(now)
        gone, self._removed = self._removed, []
        looks = [one.observation(now, self._rounds) for one in chosen]
        for partition, look in zip(chosen, looks, strict=True):
            partition.reported = look
        self._is_urgent = any(one.urgency(now) is Urgency.NOW for one in self._unreported.values())
        seen = PartitionsBatch(
            observed_at_ms=self._observed_at_ms,
            observations=(*gone, *looks),
            is_full=is_full,
            not_covered=self._not_covered,
            trouble=self._trouble(),
        )
        return Sample(seen, self._due_requests(now) if self._failure is None else ())

    def _choose(self, now_ms: int) -> list[WatchedPartition]:
        """Returns the partitions to report, at most REPORTS_AT_ONCE: urgent ones first, then those reported longest
        ago. The rest waits for the next micro-batch."""
        waiting = [(one.urgency(now_ms), one) for one in self._unreported.values()]
        ready = [(urgency, one) for urgency, one in waiting if urgency >= Urgency.NEXT]
        ready.sort(key=lambda item: (-item[0], item[1].reported.observed_at_ms if item[1].reported else 0))
        chosen = [one for _, one in ready[:REPORTS_AT_ONCE]]
        for partition in chosen:
            del self._unreported[partition.ends.topic_partition]
        return chosen

    def _refresh(self) -> None:
        topics = self._brokers.topics()
        self._layouts_at_ms = self._now_ms()
        self._log = topics.layouts.get(LOG)
        covered = {name: layout for name, layout in topics.layouts.items() if self._watch.covers(name)}
        self._not_covered = sum(len(layout.leaders) for layout in topics.layouts.values()) - sum(
            len(layout.leaders) for layout in covered.values()
        )
        self._remove_missing(covered)
        if covered == self._layouts:  # layouts contain topics and leaders only
            return
        for name, layout in covered.items():
            if layout != self._layouts.get(name):
                self._add_partitions(layout)
        self._layouts = covered

    def _add_partitions(self, layout: TopicLayout) -> None:
        for partition, leader in layout.leaders.items():
            place = (layout.topic, partition)
            if known := self._watched.get(place):
                known.note_leader(leader)
                self._unreported[place] = known
                continue
            self._watched[place] = new = WatchedPartition(
                PartitionEnds(layout.topic, partition, layout.topic_id, leader.node, leader.epoch)
            )
            if clock := self._clocks.pop(place, None):
                new.restore(clock, self._now_ms())
            self._starts_at_ms = 0  # requested with the next round

    def _remove_missing(self, layouts: Mapping[str, TopicLayout]) -> None:
        missing = sorted({topic for topic, _ in self._watched if topic not in layouts})
        some = [*missing[self._next_check :], *missing[: self._next_check]][:_CHECKS_AT_ONCE]
        self._next_check = (self._next_check + _CHECKS_AT_ONCE) % max(len(missing), 1)
        checked = {topic: self._brokers.listing(topic) for topic in some}
        for place, partition in list(self._watched.items()):
            layout = layouts.get(partition.ends.topic)
            if layout is not None:
                is_gone = layout.topic_id != partition.ends.topic_id or partition.ends.partition not in layout.leaders
            else:
                listing = checked.get(partition.ends.topic)
                is_gone = listing is not None and not listing.is_there
                if listing is not None and listing.hidden is not None:
                    self._note_miss(place, partition, listing.hidden)
            if is_gone:
                self._removed.append(partition.observation(self._now_ms(), self._rounds, is_gone=True))
                self._is_urgent = True
                for kept in (self._watched, self._unreported, self._stalled, self._unresponsive):
                    kept.pop(place, None)

    def _apply_ends(self, found: Mapping[Place, Ends], asked_at_ms: int, *, with_start: bool) -> list[WatchedPartition]:
        """Applies the answers of a round. Returns the stalled partitions that were not yet read at their present
        LSO."""
        stalled = []
        number, watched = self._rounds.number, self._watched
        for place, ends in found.items():
            partition = watched.get(place)
            if partition is None:
                continue  # a partition of the transaction log, which every round requests, watched or not
            if ends.error:
                self._note_miss(place, partition, partition.reason_for(ends.error))
                continue
            known = partition.ends
            if (
                ends.last_stable_offset == known.last_stable_offset
                and ends.high_watermark == known.high_watermark
                and partition.since_ms is None
                and not partition.misses
                and known.leader_epoch == (stretch := partition.samples.stretches[-1]).leader_epoch
                and (not with_start or ends.log_start == known.log_start)
            ):
                partition.seen_at_ms = asked_at_ms  # most partitions, most of the time
                stretch.last = number
                continue
            partition.note_answer(ends, asked_at_ms, self._rounds)
            self._unresponsive.pop(place, None)
            if partition.since_ms is None:
                self._stalled.pop(place, None)
            else:
                self._stalled[place] = partition
                if partition.read_lso != partition.ends.last_stable_offset and partition.stalled_since_ms is not None:
                    stalled.append(partition)
            self._note_change(place, partition, asked_at_ms)
        return stalled

    def _note_log_ends(self, layout: TopicLayout, found: Mapping[Place, Ends]) -> None:
        """Notes the ends of the transaction log. The ends show, without a clock, in which order records of this log and
        of data partitions were written."""
        ends = {p: found[LOG, p] for p in layout.leaders if not found[LOG, p].error}
        log_ends = {p: LogEnd(one.high_watermark, layout.leaders[p].epoch) for p, one in ends.items()}
        if log_ends != self._log_ends:
            self._log_ends = log_ends
        self._rounds.set_ends(self._log_ends)

    def _update_log_starts(self, stalled: Iterable[WatchedPartition]) -> None:
        """Updates the log starts of `stalled` before they are reported: the blocker depends on whether the LSO lies at
        the log's start."""
        leaders: dict[str, dict[int, Leader]] = {}
        for partition in stalled:
            leaders.setdefault(partition.ends.topic, {})[partition.ends.partition] = Leader(
                partition.ends.leader, partition.ends.leader_epoch
            )
        layouts = {topic: TopicLayout(topic, self._layouts[topic].topic_id, some) for topic, some in leaders.items()}
        for place, ends in self._brokers.starts(layouts).items():
            if not ends.error:
                partition = self._watched[place]
                partition.ends = partition.ends._replace(log_start=ends.log_start)

    def _note_miss(self, place: Place, partition: WatchedPartition, why: Reason) -> None:
        if not partition.misses:
            self._layouts_at_ms = 0  # another broker may lead now
        partition.note_miss(why, self._rounds)
        if partition.why is not None:
            self._unresponsive[place] = partition
        self._note_change(place, partition, self._now_ms())

    def _note_change(self, place: Place, partition: WatchedPartition, now_ms: int) -> None:
        urgency = partition.urgency(now_ms)
        if urgency is Urgency.NONE:
            self._unreported.pop(place, None)
            return
        self._unreported[place] = partition
        self._is_urgent |= urgency is Urgency.NOW

    def _due_requests(self, now_ms: int) -> tuple[PartitionEnds, ...]:
        """Returns the stalled partitions to read now, at most READS_AT_ONCE: first those not yet read at their present
        LSO, then those read longest ago. Notes them as read."""
        due = [
            one
            for one in self._stalled.values()
            if not one.misses
            and one.stalled_since_ms is not None
            and (one.read_lso != one.ends.last_stable_offset or is_over(one.read_at_ms, READ_AGAIN_MS, now_ms))
        ]
        due.sort(key=lambda one: one.read_at_ms if one.read_lso == one.ends.last_stable_offset else 0)
        for partition in due[:READS_AT_ONCE]:
            partition.read_at_ms, partition.read_lso = now_ms, partition.ends.last_stable_offset
        return tuple(one.ends for one in due[:READS_AT_ONCE])

    def _trouble(self) -> Reason | None:
        if self._failure is not None:
            return self._failure
        if not self._unresponsive:
            return None
        reasons = Counter(
            partition.why for partition in self._unresponsive.values() if partition.why is not None
        ).most_common(3)
        return PartitionsUnresponsive(len(self._unresponsive), len(self._watched), tuple(reasons))
