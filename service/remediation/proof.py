"""Derives the decision on a hanging transaction once more, from the brokers' own bytes."""

from __future__ import annotations

from service.domain.findings.finding import Finding
from service.domain.partitions.open_entries import Entry, Owner
from service.domain.transaction_log.states import TOPIC
from service.domain.worlds.facts import entry_query
from service.domain.worlds.order import decode
from service.domain.worlds.proving import verdict_on
from service.domain.worlds.verdict import Decided, Verdict
from service.kafka.client import KafkaClient
from service.kafka.entry_facts import read_facts
from service.kafka.leader_check import CheckedPartition, LeaderCheck
from service.remediation.owner import Reading
from service.remediation.refused import Refused
from service.store.queries import partitions
from service.store.queries.clusters import log_read


def prove_again(
    finding: Finding,
    entry: Entry,
    owner: Owner | None,
    seen: CheckedPartition,
    cluster_id: int,
    client: KafkaClient,
    bracket: LeaderCheck,
    reading: Reading,
) -> Verdict:
    """Returns the verdict if it calls for the same marker as the finding. Raises Refused, KafkaFailure, StoreError."""
    with reading() as connection:
        row = partitions.find(connection, cluster_id, entry.topic, entry.partition)
        hidden = log_read(connection, cluster_id).hidden
    if row is None or row.topic_id != seen.topic_id:
        raise Refused(f"topic {entry.topic} was deleted and created again")
    ask = entry_query(entry, owner, decode(row.samples), is_deep=True)
    log = None if owner is None else bracket.end_offsets(TOPIC, {owner.log_partition})
    facts = read_facts(client, ask, seen, log)
    if facts is None:
        raise Refused(f"{TOPIC}-{ask.log_partition} cannot be read now: the decision cannot be derived again")
    verdict = verdict_on(ask, facts, hidden)
    if not verdict.is_known:
        raise Refused(f"the decision can no longer be proven: {verdict.why}", "find out from the application")
    if (verdict.decision == Decided.COMMIT) != (finding.observation.decision == Decided.COMMIT):
        raise Refused(
            f"the decision of the finding is {finding.observation.decision}, that of the brokers' logs"
            f" {verdict.decision}: {verdict.why}",
            "find out from the application",
        )
    return verdict
