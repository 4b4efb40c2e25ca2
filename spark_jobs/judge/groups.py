"""Observes consumer groups that are blocked by open transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from service.domain.findings import blocked_group, stall_causes
from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, Key, Observation, RoundResult
from service.domain.findings.kinds import Kind
from service.domain.findings.stall_causes import Blocker
from service.domain.partitions.blocked_groups import AffectedGroup
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.open_entries import Entry, Relation
from service.store.escaped_text import display_id
from service.store.queries import partitions
from service.store.queries.partitions import STALLED_SAMPLES_READ, observed_at_ms
from spark_jobs.judge.group_prober import GroupProber

Judged = Iterable[tuple[Entry, Relation]]
"""The open entries on stalled partitions, each with its relation: which transaction will end the entry, if any."""


class BlockedGroupObserver:
    """Observes blocked groups round by round. If `prober` is None, no broker is asked, and only stored groups are
    judged."""

    def __init__(self, cluster_id: int, prober: GroupProber | None) -> None:
        self._cluster_id, self._prober = cluster_id, prober

    def look(
        self,
        connection: Connection,
        context: Context,
        known: Mapping[Key, Finding],
        blocked_groups: Sequence[AffectedGroup],
        judged: Judged,
    ) -> RoundResult:
        """Returns the round's result on `blocked_groups`, the groups on stalled partitions. `known` includes this
        round's findings about the blocking transactions.

        A group no longer waits if its partition is not stalled any more, or if its coordinator's answer shows that the
        group has passed the LSO. The store has both facts, even if the last answer is old.
        """
        as_of_ms = observed_at_ms(connection, self._cluster_id) or 0
        found = stall_causes.blocked_groups(blocked_groups, _by_place(judged), known, context, as_of_ms)
        unread = {Kind.BLOCKED_GROUP: self.unread(connection)}
        judged_kinds = frozenset({Kind.BLOCKED_GROUP})
        return RoundResult(tuple(found), judged_kinds, frozenset(context.log.known_until_ms), True, unread=unread)

    def gaps(self) -> list[Observation]:
        """Returns the coverage gaps of groups. The result of `ConditionObserver` contains these gaps, because only that
        result can end findings about coverage gaps."""
        if self._prober is None:
            return []
        return [
            *blocked_group.unreadable_groups(self._prober.denied, self._prober.not_judged),
            *blocked_group.incompletely_read(self._prober.unread),
        ]

    def unread(self, connection: Connection) -> int:
        """Returns the number of groups, rows of groups, open transactions and stalled partitions that are not asked
        about, or not read, because of bounds."""
        groups = partitions.count_groups(connection, self._cluster_id)
        stalled = partitions.count_stalled(connection, self._cluster_id)
        not_read = max(groups - partitions.GROUPS_READ, 0) + max(stalled - STALLED_SAMPLES_READ, 0)
        return not_read + (0 if self._prober is None else self._prober.left_out)


def _by_place(judged: Judged) -> dict[TopicPartition, list[Blocker]]:
    found: dict[TopicPartition, list[Blocker]] = {}
    for entry, relation in judged:
        name = None if relation.owner is None else display_id(relation.owner.transactional_id)
        found.setdefault(entry.topic_partition, []).append(Blocker(entry, relation, name))
    return found
