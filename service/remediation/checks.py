"""Repeats the second confirmation step: no coordinator will end the transaction. Checks that the transaction's producer
is fenced, because otherwise no marker is allowed. Derives the decision about the transaction again, from the brokers'
logs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from sqlalchemy import Connection

from service.domain.findings.finding import Finding
from service.domain.partitions.open_entries import Entry, Owner, is_left_behind, owner_of, will_end
from service.domain.source_state import SourceName
from service.domain.transaction_log.states import EXPIRED, NAMES, TOPIC, UNKNOWN
from service.domain.worlds.facts import entry_query
from service.domain.worlds.order import decode
from service.domain.worlds.proving import verdict_on
from service.domain.worlds.verdict import Decided
from service.kafka.client import KafkaClient
from service.kafka.cluster import topic_layout
from service.kafka.entry_facts import read_facts
from service.kafka.leader_check import CheckedPartition, LeaderCheck
from service.kafka.transactions import no_coordinator_knows
from service.store.escaped_text import display_id
from service.store.queries import clusters, partitions
from service.store.queries.clusters import log_read
from service.store.queries.owners import owners


def argument(raw: bytes) -> str | None:
    r"""Returns the bytes as an argument for bash or zsh: quoted, or as `$'a\x09b'` if they are not printable. Returns
    None for bytes with NUL, which no argument can contain."""
    if b"\0" in raw:
        return None
    text = raw.decode("utf-8", "surrogateescape")
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(c: str) -> str:
    if c in "\\'":
        return f"\\{c}"
    return c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode("utf-8", "surrogateescape"))


class Refused(Exception):
    """The marker must not be written now. The text is one line for people: the reason, and what an operator can do
    first."""

    def __init__(self, why: str, first: str | None = None) -> None:
        super().__init__(why if first is None else f"{why}. First {first}")


READS_WITHIN_S: Final = 5.0
"""Longest time (s) to wait until the store has read the transaction log to its end."""

_PAUSE_S: Final = 0.1

Reading = Callable[[], AbstractContextManager[Connection]]


def nobody_owns(
    entry: Entry, cluster_id: int, client: KafkaClient, bracket: LeaderCheck, reading: Reading
) -> Owner | None:
    """Returns the owner, which is the transactional.id that wrote the entry (None: no id has the producer id). First
    waits until the store has read the partitions of the transaction log that may contain the owner, to their present
    ends. Raises Refused if the owner cannot be determined, or if the owner's coordinator will or may still end the
    entry. Raises KafkaFailure, StoreError."""
    with reading() as connection:
        owner = _owner(connection, cluster_id, entry)
        known = {row.partition for row in clusters.partitions(connection, cluster_id, SourceName.TRANSACTION_LOG)}
    owner = _read_to_the_end(entry, cluster_id, bracket, reading, _needed(client, owner, known))
    if owner is not None and owner.state == UNKNOWN:
        raise Refused(
            f"the state of {display_id(owner.transactional_id)}, the owner of the transaction, is not known: its newest"
            " record cannot be decoded"
        )
    if owner is not None and will_end(entry, owner):
        name = display_id(owner.transactional_id)
        raise Refused(
            f"{name} is {NAMES[owner.state]}, and its transaction includes the partition: the marker of that"
            " transaction will end these records, with the outcome of that transaction"
        )
    if owner is not None and is_left_behind(entry, owner):
        _refuse_while_known(owner, client)
    return owner


def _refuse_while_known(owner: Owner, client: KafkaClient) -> None:
    """Raises Refused unless the brokers' answers prove that no coordinator knows the id under this producer id."""
    is_unknown, name = _is_unknown_to_all(owner, client), display_id(owner.transactional_id)
    if is_unknown is None:
        raise Refused(
            f"partitions were added to {TOPIC}, and it is not known whether a coordinator still ends the transaction of"
            f" {name}: a broker did not answer, or DESCRIBE on the id is missing"
        )
    if not is_unknown:
        raise Refused(
            f"partitions were added to {TOPIC}, and a coordinator that has not restarted since then still ends the"
            f" transaction of {name}",
            "restart every broker that has not restarted since then, one by one; then ask for the marker again",
        )


def _is_unknown_to_all(owner: Owner, client: KafkaClient) -> bool | None:
    """Returns whether the brokers' answers prove that no coordinator knows the id under this producer id; None if that
    is not known."""
    return no_coordinator_knows(client, owner.transactional_id.decode(), owner.producer_id)


def _needed(client: KafkaClient, owner: Owner | None, known: set[int]) -> set[int]:
    """Returns the partitions of the transaction log that may contain the owner. If the owner is known, returns only its
    partition, because a producer id belongs to one transactional.id for ever. Otherwise returns all log partitions.
    `known`: the log partitions of which the store has a position. Raises Refused if all log partitions are needed and
    the store lacks one."""
    if owner is not None:
        return {owner.log_partition}
    layout = topic_layout(client, TOPIC)
    if layout is None or not layout.leaders or not layout.leaders.keys() <= known:
        raise Refused(f"the store may lack partitions of {TOPIC}: the owner of the transaction is not known")
    return set(layout.leaders)


def _read_to_the_end(
    entry: Entry, cluster_id: int, bracket: LeaderCheck, reading: Reading, needed: set[int]
) -> Owner | None:
    """Waits until the store has read the `needed` log partitions to the ends that their present leaders report, and
    returns the owner (None: no id has the producer id). Raises Refused in three cases: one of these log partitions
    cannot be observed; the store has not read them after READS_WITHIN_S; there is no owner, but the newest record of
    some id cannot be decoded."""
    seen = bracket.observe({(TOPIC, p) for p in needed})
    if missing := needed - {p for _, p in seen}:
        named = ", ".join(f"{TOPIC}-{p}" for p in sorted(missing)[:3])
        raise Refused(f"the transaction log cannot be read whole: {named} cannot be read now")
    give_up = time.monotonic() + READS_WITHIN_S
    while True:
        with reading() as connection:
            rows = {
                row.partition: row for row in clusters.partitions(connection, cluster_id, SourceName.TRANSACTION_LOG)
            }
            owner = _owner(connection, cluster_id, entry)
            undecodable = clusters.has_undecodable(connection, cluster_id)
        if all(_is_read(rows.get(p), partition) for (_, p), partition in seen.items()):
            break
        if time.monotonic() > give_up:
            raise Refused("the transaction log is not read to its end yet: the owner of the transaction is not known")
        time.sleep(_PAUSE_S)
    if owner is None and undecodable:
        raise Refused("the newest record of some transactional.id cannot be decoded: that id may be the owner")
    return owner


def _is_read(row: clusters.LogPartitionRow | None, seen: CheckedPartition) -> bool:
    """Returns whether the store has read the partition to its high watermark. A row with another leader epoch does not
    count, because its log may have been replaced."""
    return row is not None and row.leader_epoch == seen.leader.epoch and row.next_offset >= seen.ends.high_watermark


def is_fenced(entry: Entry, owner: Owner | None, client: KafkaClient) -> None:
    """Raises Refused if the owner still has the entry's producer id and epoch, because the owner could write again
    after the marker. Does not raise for a left-behind owner that no coordinator knows. Nobody can fence such an owner,
    but its producer gets another producer id at its next start, and leaders refuse records that they cannot verify."""
    if owner is None or owner.state == EXPIRED or owner.producer_id != entry.producer_id:
        return
    if owner.producer_epoch > entry.producer_epoch or (owner.is_left_behind and _is_unknown_to_all(owner, client)):
        return
    word = argument(owner.transactional_id)
    tool = f", or (Kafka 4.1 and newer) run kafka-transactions.sh forceTerminateTransaction --transactionalId {word}"
    raise Refused(
        f"{display_id(owner.transactional_id)} may still write with producer id {entry.producer_id} and epoch"
        f" {entry.producer_epoch}: its records after the marker could hang again",
        f"fence this id: stop its producer and start it again{tool if word else ''} (this aborts any transaction that"
        " the id has open by then, and discards its records); then ask for the marker again",
    )


def _owner(connection: Connection, cluster_id: int, entry: Entry) -> Owner | None:
    found = owners(connection, cluster_id, [entry.producer_id])
    return owner_of(entry, found.get(entry.producer_id, []))


def prove_again(
    finding: Finding,
    entry: Entry,
    owner: Owner | None,
    seen: CheckedPartition,
    cluster_id: int,
    client: KafkaClient,
    bracket: LeaderCheck,
    reading: Reading,
) -> None:
    """Raises Refused unless the brokers' logs prove that the finding's marker is right. Raises KafkaFailure,
    StoreError."""
    with reading() as connection:
        row = partitions.find(connection, cluster_id, entry.topic, entry.partition)
        hidden = log_read(connection, cluster_id).hidden
    if row is None:
        raise Refused(f"{entry.topic}-{entry.partition} is not watched any more, or was deleted")
    if row.topic_id != seen.topic_id:
        raise Refused(f"topic {entry.topic} was deleted and created again")
    ask = entry_query(entry, owner, decode(row.samples), is_deep=True)
    log = None if owner is None else bracket.end_offsets(TOPIC, {owner.log_partition})
    facts = read_facts(client, ask, seen, log)
    if facts is None:
        raise Refused(f"{TOPIC}-{ask.log_partition} cannot be read now: the decision cannot be derived again")
    verdict = verdict_on(ask, facts, hidden)
    if not verdict.is_known:
        raise Refused(f"the decision cannot be proven now: {verdict.why}")
    if (verdict.decision == Decided.COMMIT) != (finding.observation.decision == Decided.COMMIT):
        raise Refused(
            f"the finding's decision is {finding.observation.decision}, but the brokers' logs prove {verdict.decision}:"
            f" {verdict.why}"
        )
