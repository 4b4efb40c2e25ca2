"""Observes records that were left behind in the transaction log when partitions were added: their number, and the
Ongoing transactions among them that no coordinator knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection

from service.domain.findings.conditions import IdState
from service.domain.findings.context import Context
from service.domain.findings.finding import RoundResult
from service.domain.findings.kinds import Kind
from service.domain.findings.log_expanded import LeftBehind, LeftBehindIds, expanded, named_first
from service.domain.findings.open_too_long import is_overdue
from service.domain.transaction_log.coordinator_partition import is_left_behind
from service.domain.transaction_log.states import EXPIRED, ONGOING
from service.store.escaped_text import full_id
from service.store.queries import judge_inputs
from spark_jobs.judge.coordinator_prober import LeftBehindAnswer

IDS_AT_ONCE: Final = 2_000
"""Number of ids that one round checks, in about 15 ms."""

AGAIN_MS: Final = 60_000
"""Interval (ms) between two walks through all ids while some ids are left behind. If no id is left behind, the next
walk begins when partitions are added: until then, coordinators write every record to the right partition."""


@dataclass(slots=True)
class LeftBehindObserver:
    """Walks through all ids, some of them in each round. `uncoordinated`: the transactions that no coordinator knows,
    as (id, producer id)."""

    cluster_id: int
    uncoordinated: frozenset[tuple[bytes, int]] = frozenset()
    _partition_count: int = 0
    _begins_at_ms: int | None = 0
    _after: bytes | None = None
    _ids: int = 0
    _ongoing: int = 0
    _named: list[LeftBehind] = field(default_factory=list)

    def look(self, connection: Connection, context: Context, now_ms: int) -> list[RoundResult]:
        """Continues a walk through all ids, or begins one that is due. In the round that completes a walk, returns one
        result. In every other round, returns an empty list. Does nothing while the log is incomplete
        (`KnownLog.is_complete`)."""
        if not context.log.is_complete:
            return []
        if context.log.partition_count != self._partition_count:
            self._partition_count, self._begins_at_ms, self._after = context.log.partition_count, now_ms, None
            self.uncoordinated = frozenset()
        if self._after is None:
            if self._begins_at_ms is None or now_ms < self._begins_at_ms:
                return []
            self._after, self._ids, self._ongoing, self._named = b"", 0, 0, []
        some = judge_inputs.some_ids(connection, self.cluster_id, self._after, IDS_AT_ONCE)
        self._add(some)
        if len(some) == IDS_AT_ONCE:
            self._after = some[-1].transactional_id
            return []
        self._after = None
        others = judge_inputs.left_behind_ids(connection, self.cluster_id)
        found = LeftBehindIds(
            self._ids + others.ids, self._ongoing + others.ongoing, named_first([*self._named, *others.named])
        )
        self._begins_at_ms = now_ms + AGAIN_MS if found.ids else None
        observations = expanded(found, self._partition_count)
        return [RoundResult(tuple(observations), frozenset({Kind.LOG_EXPANDED}), is_log_complete=True)]

    def to_ask(self, timed_out: Iterable[IdState], others: Iterable[IdState], context: Context) -> list[IdState]:
        """Returns the transactions of `timed_out` and `others` about which the brokers are to be asked: those that are
        overdue, were left behind, and are not in `uncoordinated` yet."""
        return [
            id_state
            for id_state in (*timed_out, *others)
            if is_left_behind(id_state.transactional_id, id_state.partition, context.log.partition_count)
            and is_overdue(id_state, context.log)
            and (id_state.transactional_id, id_state.producer_id) not in self.uncoordinated
        ]

    def apply(self, answer: LeftBehindAnswer) -> None:
        transaction = answer.transactional_id, answer.producer_id
        self.uncoordinated = (
            self.uncoordinated - {transaction} if answer.is_known else self.uncoordinated | {transaction}
        )

    def _add(self, some: Iterable[LeftBehind]) -> None:
        for left_behind in some:
            whole = full_id(left_behind.transactional_id, left_behind.name)
            if left_behind.state >= EXPIRED or not is_left_behind(whole, left_behind.partition, self._partition_count):
                continue
            self._ids += 1
            self._ongoing += left_behind.state == ONGOING
            self._named = list(named_first([*self._named, left_behind]))
