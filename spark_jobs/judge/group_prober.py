"""Asks group coordinators which groups wait at a stalled LSO. Runs in a thread of its own, and asks only while some LSO
is stalled."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Engine

from service.domain.findings.blocked_group import UnreadCommits
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, GroupOffset, LsoSample
from service.domain.partitions.open_entries import Entry
from service.domain.reasons.reason import Reason
from service.kafka import cluster
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure
from service.kafka.groups import list_groups
from service.kafka.settings import ClientSettings
from service.kafka.share_groups import PROTOCOL_TYPE
from service.store.engine import open_reader
from service.store.lease import Lease
from service.store.queries import partitions
from service.store.writers.groups import GroupWriter
from spark_jobs.judge.group_requests import NO_ANSWER, GroupsAnswer, ask_groups, ask_share_groups
from spark_jobs.judge.group_rounds import GroupSchedule, Stalls, UnresponsiveBrokers, stalled_partitions
from spark_jobs.judge.pending_offsets import Pending, PendingOffsets, blocking_entries
from spark_jobs.judge.records_ahead import RecordsAhead, needs_later_sample
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.periodic import repeated

log = logging.getLogger(__name__)

PROBE_EVERY_S: Final = 0.5
LIST_EVERY_MS: Final = 30_000
SAMPLE_WAIT_S: Final = 2.0
"""Longest wait (s) for the next sample of partitions. Without urgent news, samples are stored once a second."""

ROUND_S: Final = 1.5
"""Time (s) after which a round asks about no more batches of groups."""

MOST_ROWS: Final = 5_000
"""Maximum number of rows that are kept of one round; further rows are left out, and counted."""

_NO_DATA_OF: Final = frozenset({"connect", "sr"})
"""Kinds of groups (protocol types) that read no partitions."""


class GroupProber:
    """Watches consumer groups on stalled partitions. Call `round` from one thread only, and `close` when the prober is
    no longer needed.

    Other threads may read four fields:

    - `denied`: known groups for which DESCRIBE is not allowed.
    - `not_judged`: share groups for which it is not known whether they wait, with the reason.
    - `unread`: open transactions that may commit offsets of more groups than are known.
    - `left_out`: the number of groups, partitions of groups, and open transactions that are not read because there are
      too many.
    """

    def __init__(self, reader: Engine, writer: GroupWriter, cluster_id: int, client: ClientSettings) -> None:
        self._reader, self._writer, self._cluster_id, self._settings = reader, writer, cluster_id, client
        self._client: KafkaClient | None = None
        self._schedule = GroupSchedule()
        self._listed_ms: int | None = None
        self._unresponsive = UnresponsiveBrokers()
        self._pending = PendingOffsets(self._unresponsive)
        self._records_ahead = RecordsAhead(self._unresponsive)
        self._share: frozenset[str] = frozenset()
        self._is_cleared = False
        self.denied: frozenset[str] = frozenset()
        self.not_judged: Mapping[str, Reason] = {}
        self.unread: tuple[UnreadCommits, ...] = ()
        self.left_out = 0
        self._rows_left_out: Mapping[str, int] = {}

    def round(self, now_ms: int) -> float:
        """Runs one round, and returns the number of seconds until the next round. Raises LeaseLost or StoreUnavailable
        if the writer does, and KafkaFailure if no broker can be asked."""
        with self._reader.connect() as connection:
            ends = partitions.stalled_samples(connection, self._cluster_id)
            as_of_ms = partitions.observed_at_ms(connection, self._cluster_id) if ends else None
            stalled = stalled_partitions(ends, partitions.offsets_partitions(ends), as_of_ms)
            offsets_places = [(OFFSETS_TOPIC, partition) for partition in stalled.offsets]
            entries = partitions.entries(connection, self._cluster_id, offsets_places) if offsets_places else []
        if not stalled:
            self._clear(now_ms)
            return PROBE_EVERY_S
        try:
            self._ask(stalled, ends, blocking_entries(entries, ends, as_of_ms or 0), now_ms)
        except KafkaFailure:
            self.close()
            raise
        return PROBE_EVERY_S

    def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
            self._client = None

    def _clear(self, now_ms: int) -> None:
        """Deletes the stored rows, because no group waits while nothing is stalled. Once the list of groups is
        LIST_EVERY_MS old, also forgets the groups and closes the connection."""
        if not self._is_cleared:
            self._writer.replace((), now_ms)
            self._is_cleared = True
        self._pending, self.unread = PendingOffsets(self._unresponsive), ()
        self._rows_left_out, self.left_out = {}, 0
        self._schedule.set_named({})
        if self._client is not None and now_ms - (self._listed_ms or 0) >= LIST_EVERY_MS:
            self._listed_ms = None
            self._schedule = GroupSchedule()
            self.denied, self.not_judged = frozenset(), {}
            self._records_ahead = RecordsAhead(self._unresponsive)
            self.close()

    def _ask(
        self, stalled: Stalls, ends: Mapping[TopicPartition, LsoSample], entries: Sequence[Entry], now_ms: int
    ) -> None:
        started = time.monotonic()
        self._client = self._client or KafkaClient(self._settings)
        known = self._schedule.coordinators.keys()
        self._pending.read_more(self._client, entries, ends, now_ms)
        self.unread = self._pending.unread(now_ms)
        pending = self._pending.by_group()
        self._schedule.set_named(self._pending.coordinators())
        if self._listed_ms is None or now_ms - self._listed_ms >= LIST_EVERY_MS:
            self._list(self._client, now_ms)
        rows: list[GroupOffset] = []
        lags: dict[tuple[str, str, int], int] = {}
        asked: set[str] = set()
        began = time.monotonic()
        for node, groups in self._schedule.due(stalled, now_ms):
            if time.monotonic() - began > ROUND_S or len(rows) >= MOST_ROWS:
                break
            if self._unresponsive.is_skipped(node, now_ms):
                continue
            answered = self._answer(self._client, node, groups, stalled, pending, now_ms)
            for group in groups:
                self._schedule.note_asked(group, now_ms, None if answered is None else answered.topics_of(group))
            if answered is not None:
                rows += answered.rows
                lags |= answered.lags
                asked |= answered.topics.keys() | answered.denied
                self.denied = (self.denied - set(groups)) | answered.denied
                still = {group: why for group, why in self.not_judged.items() if group not in groups}
                self.not_judged = {**still, **answered.not_judged}
                self._listed_ms = None if answered.has_moved else self._listed_ms
        if asked or not known <= self._schedule.coordinators.keys():  # or a known group does not exist any more
            answered_ms = now_ms + round((time.monotonic() - started) * 1000)
            if waiting := needs_later_sample(rows, lags, ends):
                self._wait_for_sample(answered_ms)
            rows = self._records_ahead.complete(
                self._client, rows, lags, self._later_ends(waiting, ends, answered_ms), now_ms
            )
            self._writer.replace(rows[:MOST_ROWS], answered_ms, unasked=self._schedule.coordinators.keys() - asked)
            self._is_cleared = False
            kept = {g: n for g, n in self._rows_left_out.items() if g in self._schedule.coordinators and g not in asked}
            self._rows_left_out = kept | Counter(row.group for row in rows[MOST_ROWS:])
        self.left_out = self._schedule.left_out + self._pending.left_out + sum(self._rows_left_out.values())

    def _wait_for_sample(self, after_ms: int) -> None:
        """Waits, up to SAMPLE_WAIT_S, for a sample of partitions at `after_ms` or later. A committed offset beyond the
        LSO can only be judged by the LSO of such a sample."""
        give_up = time.monotonic() + SAMPLE_WAIT_S
        while time.monotonic() < give_up:
            with self._reader.connect() as connection:
                if (partitions.observed_at_ms(connection, self._cluster_id) or 0) >= after_ms:
                    return
            time.sleep(SAMPLE_WAIT_S / 20)

    def _later_ends(
        self, waiting: Set[TopicPartition], ends: Mapping[TopicPartition, LsoSample], answered_ms: int
    ) -> Mapping[TopicPartition, LsoSample]:
        """Returns the stalled partitions as sampled at `answered_ms` or later. If there is no such sample, returns
        `ends` without the partitions in `waiting`, which need one (`needs_later_sample`)."""
        with self._reader.connect() as connection:
            if (partitions.observed_at_ms(connection, self._cluster_id) or 0) >= answered_ms:
                return partitions.stalled_samples(connection, self._cluster_id)
        return {place: sample for place, sample in ends.items() if place not in waiting}

    def _list(self, client: KafkaClient, now_ms: int) -> None:
        """Asks every broker for its groups. If some broker does not answer, all known groups are kept, because they may
        have moved to that broker."""
        brokers = cluster.broker_ids(client)
        listed: dict[str, int] = {}
        answered: set[int] = set()
        share: set[str] = set()
        for node in brokers:
            if self._unresponsive.is_skipped(node, now_ms):
                continue
            try:
                found = list_groups(client, node)
            except KafkaFailure as e:
                self._note_failure(node, now_ms, e)
                continue
            answered.add(node)
            listed |= {group.group: node for group in found if group.protocol_type not in _NO_DATA_OF}
            share |= {group.group for group in found if group.protocol_type == PROTOCOL_TYPE}
        is_whole = answered.issuperset(brokers)
        kept = {} if is_whole else self._schedule.coordinators
        self._share = frozenset(share if is_whole else self._share | share)
        self._schedule.set_listed(kept | listed)
        self.denied &= self._schedule.coordinators.keys()
        self.not_judged = {group: why for group, why in self.not_judged.items() if group in self._share}
        self._listed_ms = now_ms

    def _answer(
        self, client: KafkaClient, node: int, groups: list[str], stalled: Stalls, pending: Pending, now_ms: int
    ) -> GroupsAnswer | None:
        share = [group for group in groups if group in self._share]
        others = [group for group in groups if group not in self._share]
        try:
            answered = ask_groups(client, node, others, stalled, pending) if others else NO_ANSWER
            return answered.with_share_groups(ask_share_groups(client, node, share, stalled)) if share else answered
        except KafkaFailure as e:
            self._note_failure(node, now_ms, e)
            return None

    def _note_failure(self, node: int, now_ms: int, e: KafkaFailure) -> None:
        log.debug("broker %d could not be asked about groups: %s", node, e)
        self._unresponsive.note_failure(node, now_ms)


@contextmanager
def probing_groups(
    store: str, engine: Engine, lease: Lease, client: ClientSettings, liveness: Liveness
) -> Iterator[GroupProber]:
    """Asks about groups in the background until the block ends or the lease is lost."""
    reader = open_reader(store)
    prober = GroupProber(reader, GroupWriter(engine, lease), lease.cluster_id, client)
    try:
        with repeated("the watch of consumer groups", prober.round, liveness):
            yield prober
    finally:
        prober.close()
        with suppress(Exception):
            reader.dispose()
