"""Asks group coordinators which groups wait at a stalled LSO, in a thread of its own; only while an LSO is stalled."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Engine

from service.domain.findings.blocked_group import UnreadCommits
from service.domain.partitions.blocked_groups import OFFSETS_TOPIC, Ends
from service.domain.partitions.facts import Place
from service.domain.partitions.open_entries import Entry
from service.kafka import cluster
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure
from service.kafka.groups import list_groups
from service.kafka.settings import ClientSettings
from service.store.engine import open_reader
from service.store.lease import Lease
from service.store.queries import partitions
from service.store.writers.groups import GroupSeen, GroupWriter
from spark_jobs.judge.group_requests import Answered, ask_groups
from spark_jobs.judge.group_rounds import AwayBrokers, Rounds, Stalls, stalls
from spark_jobs.judge.pending_offsets import Pending, PendingOffsets, held_up
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.periodic import repeated

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.5
LIST_EVERY_MS: Final = 30_000
LOOK_WAIT_S: Final = 2.0
"""Longest wait for the next look at partitions, of which there are four a second."""

ROUND_S: Final = 1.5
"""A round that has taken so long asks no further batch of groups."""

MOST_ROWS: Final = 5_000
"""Rows that are kept of one round; further ones are left out, and counted."""

_NO_DATA_OF: Final = frozenset({"connect", "share", "sr"})
"""Kinds of groups (protocol types) that commit no offsets of partitions."""


class GroupsWatch:
    """Watches consumer groups on stalled partitions. Call `round`, one look, from one thread only; `close` in the end.

    For other threads to read: `denied`, groups that were listed and may not be asked about; `unread`, open transactions
    that may commit offsets of more groups than are known; `left_out`, the number of groups, partitions of groups, and
    open transactions that are not read because there are too many.
    """

    def __init__(self, reader: Engine, writer: GroupWriter, cluster_id: int, client: ClientSettings) -> None:
        self._reader, self._writer, self._cluster_id, self._settings = reader, writer, cluster_id, client
        self._client: KafkaClient | None = None
        self._rounds = Rounds()
        self._listed_ms: int | None = None
        self._away = AwayBrokers()
        self._pending = PendingOffsets(self._away)
        self._is_clean = False
        self.denied: frozenset[str] = frozenset()
        self.unread: tuple[UnreadCommits, ...] = ()
        self.left_out = 0
        self._cut: Mapping[str, int] = {}

    def round(self, now_ms: int) -> float:
        """Makes one look, and returns the seconds until the next. Raises LeaseLost and StoreUnavailable as the writer
        does, KafkaFailure if no broker can be asked."""
        with self._reader.connect() as connection:
            ends = partitions.standing(connection, self._cluster_id)
            as_of_ms = partitions.looked_at_ms(connection, self._cluster_id) if ends else None
            now = stalls(ends, partitions.offsets_partitions(ends), as_of_ms)
            homes = [(OFFSETS_TOPIC, partition) for partition in now.offsets]
            entries = partitions.entries(connection, self._cluster_id, homes) if homes else []
        if not now:
            self._forget(now_ms)
            return LOOK_EVERY_S
        try:
            self._ask(now, ends, held_up(entries, ends, as_of_ms or 0), now_ms)
        except KafkaFailure:
            self.close()
            raise
        return LOOK_EVERY_S

    @property
    def is_connected(self) -> bool:
        return self._client is not None

    def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
            self._client = None

    def _forget(self, now_ms: int) -> None:
        """Deletes what was seen: nobody waits. Closes the connection when the list of groups is too old to be used."""
        if not self._is_clean:
            self._writer.replace((), now_ms)
            self._is_clean = True
        self._pending, self.unread = PendingOffsets(self._away), ()
        self._cut, self.left_out = {}, 0
        self._rounds.were_named({})
        if self._client is not None and now_ms - (self._listed_ms or 0) >= LIST_EVERY_MS:
            self._listed_ms = None
            self._rounds = Rounds()
            self.denied = frozenset()
            self.close()

    def _ask(self, now: Stalls, ends: Mapping[Place, Ends], entries: Sequence[Entry], now_ms: int) -> None:
        started = time.monotonic()
        self._client = self._client or KafkaClient(self._settings)
        known = self._rounds.node_of.keys()
        self._pending.look(self._client, entries, ends, now_ms)
        self.unread = self._pending.unread(now_ms)
        pending = self._pending.named()
        self._rounds.were_named(self._pending.coordinators())
        if self._listed_ms is None or now_ms - self._listed_ms >= LIST_EVERY_MS:
            self._list(self._client, now_ms)
        rows: list[GroupSeen] = []
        asked: set[str] = set()
        began = time.monotonic()
        for node, groups in self._rounds.due(now, now_ms):
            if time.monotonic() - began > ROUND_S or len(rows) >= MOST_ROWS:
                break
            if self._away.is_away(node, now_ms):
                continue
            answered = self._answer(self._client, node, groups, now, pending, now_ms)
            for group in groups:
                self._rounds.was_asked(group, now_ms, None if answered is None else answered.topics_of(group))
            if answered is not None:
                rows += answered.rows
                asked |= answered.topics.keys() | answered.denied
                self.denied = (self.denied - set(groups)) | answered.denied
                self._listed_ms = None if answered.has_moved else self._listed_ms
        if asked or not known <= self._rounds.node_of.keys():  # or a group is no more
            answered_ms = now_ms + round((time.monotonic() - started) * 1000)
            if any(_is_ahead(row, ends) for row in rows):
                self._wait_for_a_look(answered_ms)
            self._writer.replace(rows[:MOST_ROWS], answered_ms, unasked=self._rounds.node_of.keys() - asked)
            self._is_clean = False
            kept = {g: n for g, n in self._cut.items() if g in self._rounds.node_of and g not in asked}
            self._cut = kept | Counter(row.group for row in rows[MOST_ROWS:])
        self.left_out = self._rounds.left_out + self._pending.left_out + sum(self._cut.values())

    def _wait_for_a_look(self, after_ms: int) -> None:
        """Waits, up to LOOK_WAIT_S, for a look at partitions after `after_ms`: an offset beyond the LSO means something
        only beside an LSO from a later look."""
        give_up = time.monotonic() + LOOK_WAIT_S
        while time.monotonic() < give_up:
            with self._reader.connect() as connection:
                if (partitions.looked_at_ms(connection, self._cluster_id) or 0) >= after_ms:
                    return
            time.sleep(LOOK_WAIT_S / 20)

    def _list(self, client: KafkaClient, now_ms: int) -> None:
        """Asks every broker for its groups. A known group is kept while its coordinator does not answer, and while any
        broker does not, since the group may have moved there."""
        brokers = cluster.broker_ids(client)
        listed: dict[str, int] = {}
        heard: set[int] = set()
        for node in brokers:
            if self._away.is_away(node, now_ms):
                continue
            try:
                found = list_groups(client, node)
            except KafkaFailure as e:
                self._leave(node, now_ms, e)
                continue
            heard.add(node)
            listed |= {one.group: node for one in found if one.protocol_type not in _NO_DATA_OF}
        is_whole = heard.issuperset(brokers)
        known = self._rounds.node_of
        kept = {group: node for group, node in known.items() if not is_whole or node not in heard}
        self._rounds.were_listed(kept | listed)
        self.denied &= self._rounds.node_of.keys()
        self._listed_ms = now_ms

    def _answer(
        self, client: KafkaClient, node: int, groups: list[str], now: Stalls, pending: Pending, now_ms: int
    ) -> Answered | None:
        try:
            return ask_groups(client, node, groups, now, pending)
        except KafkaFailure as e:
            self._leave(node, now_ms, e)
            return None

    def _leave(self, node: int, now_ms: int, e: KafkaFailure) -> None:
        log.debug("broker %d was not asked about groups: %s", node, e)
        self._away.leave(node, now_ms)


def _is_ahead(row: GroupSeen, ends: Mapping[Place, Ends]) -> bool:
    own = ends.get((row.topic, row.partition))
    return own is not None and row.committed_offset > own.last_stable_offset


@contextmanager
def watching_groups(
    store: str, engine: Engine, lease: Lease, client: ClientSettings, liveness: Liveness
) -> Iterator[GroupsWatch]:
    """Asks about groups in the background until the block ends or the lease is lost."""
    reader = open_reader(store)
    watch = GroupsWatch(reader, GroupWriter(engine, lease), lease.cluster_id, client)
    try:
        with repeated("the watch of consumer groups", watch.round, liveness):
            yield watch
    finally:
        watch.close()
        with suppress(Exception):
            reader.dispose()
