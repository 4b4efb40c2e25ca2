"""Reads from the store what one round of judging open entries needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, Key, Subject
from service.domain.findings.kinds import Kind, Status
from service.domain.partitions.open_entries import Relation
from service.domain.partitions.state import PartitionState
from service.domain.reasons.unread import is_log_absent
from service.store.queries import partitions as read_partitions
from service.store.queries.clusters import LogRead, log_read
from service.views.partitions.judged import TOO_MANY_ENTRIES, JudgedEntry, JudgedPartition, judge, log_unread_reason
from spark_jobs.judge.new_cases import as_coordinated
from spark_jobs.judge.partition_prober import EntryKey
from spark_jobs.judge.shared_fate import OwnedEntry, owned_entries


class EntryRound(NamedTuple):
    """The inputs of one round.

    - `read`: how far the transaction log is stored.
    - `partitions`: the stalled partitions that were read, the longest stalled first.
    - `unread`: the number of stalled partitions that were not read, or not read completely, because of a bound.
    - `shown`: the open entries, each with its partition.
    - `owned`: the entries that a transaction will end.
    - `hanging`: a mapping from subject to finding, for all findings about hanging entries.
    - `findings`: the same mapping, for open findings only.
    - `has_log`: True if `log_unread_reason` returns None.
    - `is_log_absent`: True if the brokers have no transaction log.
    """

    connection: Connection
    context: Context
    now_ms: int
    read: LogRead
    partitions: Sequence[JudgedPartition]
    unread: int
    shown: Sequence[tuple[PartitionState, JudgedEntry]]
    owned: Mapping[EntryKey, OwnedEntry]
    hanging: Mapping[Subject, Finding]
    findings: Mapping[Subject, Finding]
    has_log: bool
    is_log_absent: bool

    def has_log_for(self, relation: Relation) -> bool:
        """Returns whether the part of the transaction log that the relation depends on can be read."""
        return self.has_log or not relation.is_unread

    def is_confirmed(self, subject: Subject) -> bool:
        """Returns whether the store has a confirmed finding about the subject."""
        return subject in self.findings and self.findings[subject].status == Status.CONFIRMED


def read_round(
    connection: Connection, cluster_id: int, context: Context, known: Mapping[Key, Finding], now_ms: int
) -> EntryRound:
    """Returns the inputs of a round that begins now. `known`: all findings."""
    read = log_read(connection, cluster_id)
    partitions = judge(connection, cluster_id, read_partitions.stalled(connection, cluster_id))
    log_unread = log_unread_reason(connection, cluster_id)
    hanging = {subject: finding for (kind, subject), finding in known.items() if kind == Kind.HANGING}
    shown = [(partition.row, as_coordinated(entry, context)) for partition in partitions for entry in partition.entries]
    return EntryRound(
        connection,
        context._replace(has_undecodable=read.has_undecodable),
        now_ms,
        read,
        partitions,
        _unread(connection, cluster_id, partitions),
        shown,
        owned_entries(shown),
        hanging,
        {subject: finding for subject, finding in hanging.items() if finding.is_open},
        has_log=log_unread is None,
        is_log_absent=is_log_absent(log_unread),
    )


def _unread(connection: Connection, cluster_id: int, partitions: Sequence[JudgedPartition]) -> int:
    stalled = len(partitions)
    if stalled >= read_partitions.STALLED_READ:
        stalled = max(read_partitions.count_stalled(connection, cluster_id), stalled)
    return stalled - len(partitions) + sum(partition.why == TOO_MANY_ENTRIES for partition in partitions)
