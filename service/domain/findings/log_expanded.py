"""The finding about partitions that were added to the transaction log. Ids then hash to other partitions, and no
coordinator looks for an id in the partition that has its older records.

Seen on 3.9.2 and 4.3.1, once the brokers have restarted: DescribeTransactions does not find such an id. If the id has
an Ongoing transaction, the transaction never times out. If the id is idle, it still expires. A broker uses the number
of partitions that it read when it started, until it is restarted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from service.domain.findings.finding import Evidence, Facts, Observation, Subject, Words
from service.domain.findings.kinds import Kind, Severity
from service.domain.partitions.facts import LogPlace
from service.domain.transaction_log.coordinator_partition import coordinator_partition
from service.domain.transaction_log.states import NAMES, ONGOING, TOPIC

NAMED: Final = 5
"""Maximum number of records that the evidence names."""


class LeftBehind(NamedTuple):
    """A record that lies in `partition` of the transaction log although its id now hashes to another partition. `name`:
    its id as text. `timestamp_ms`: when the record was written."""

    transactional_id: bytes
    name: str
    partition: int
    offset: int
    timestamp_ms: int
    state: int


class LeftBehindIds(NamedTuple):
    """The ids with records that were left behind. `ids`: their number; `ongoing`: the number of those in state Ongoing;
    `named`: some of the records, Ongoing ones first."""

    ids: int
    ongoing: int
    named: tuple[LeftBehind, ...]


@dataclass(frozen=True, slots=True)
class LogExpandedFacts(Facts):
    """The facts about records that were left behind. `partitions`: the present number of partitions of the log. `ids`:
    the number of ids with records that were left behind; `ongoing`: the number of those in state Ongoing."""

    partitions: int
    ids: int
    ongoing: int

    def words(self, _: Observation, /) -> Words:
        have = "id has records" if self.ids == 1 else "ids have records"
        which = "1 of them has" if self.ongoing == 1 else f"{self.ongoing:,} of them have"
        return Words(
            f"the transaction log has {self.partitions} partitions now; {self.ids:,} {have} in a partition where no"
            " coordinator looks for them once the brokers have restarted",
            f"Partitions of {TOPIC} cannot be removed, and none should be added again. First let the transactions end"
            " that are open in the old partitions of their ids: a leader that has not restarted since the partitions"
            " were added still aborts them at their timeout; after its restart, no coordinator does. Then restart every"
            " broker that has not restarted since, one after another: until then brokers disagree about the coordinator"
            " of an id. An application that starts again gets a new producer id, recorded where its coordinator looks;"
            " the start does not abort the transaction that an earlier instance left open. End each such transaction by"
            " the marker of its finding (hanging_transaction): its records are discarded. The records of idle ids"
            " expire after transactional.id.expiration.ms. Mute this finding once no transaction is open in the old"
            " partitions.",
            f"{which} a transaction open there, which a restarted coordinator does not end"
            if self.ongoing
            else "none of them has a transaction open there",
        )


def expanded(found: LeftBehindIds, partition_count: int) -> list[Observation]:
    """Returns one observation, about the whole cluster; an empty list if no record was left behind."""
    if not found.ids:
        return []
    return [
        Observation(
            kind=Kind.LOG_EXPANDED,
            severity=Severity.CRITICAL,
            subject=Subject(),
            facts=LogExpandedFacts(partition_count, found.ids, found.ongoing),
            evidence=tuple(_evidence(left_behind, partition_count) for left_behind in found.named[:NAMED]),
            ids=found.ids,
        )
    ]


def _evidence(left_behind: LeftBehind, partition_count: int) -> Evidence:
    looked_for = coordinator_partition(left_behind.transactional_id, partition_count)
    text = (
        f"{left_behind.name} is {NAMES[left_behind.state]} here; with {partition_count} partitions, its coordinator"
        f" looks in partition {looked_for}"
    )
    return Evidence(left_behind.timestamp_ms, LogPlace(TOPIC, left_behind.partition, left_behind.offset), text)


def named_first(some: Sequence[LeftBehind]) -> tuple[LeftBehind, ...]:
    """Returns at most NAMED records for the evidence: Ongoing ones first, then by id."""
    return tuple(
        sorted(
            some,
            key=lambda left_behind: (left_behind.state != ONGOING, left_behind.transactional_id, left_behind.partition),
        )
    )[:NAMED]
