"""Reads the keys of the offsets that open transactions commit, from the transactions' batches on a partition of
`__consumer_offsets`.

Kafka reports a group's pending offset only for a partition for which the group has committed an offset before. Apart
from the transaction log, these keys are the only payload that txnscope decodes. They are decoded only for transactions
that hold back an LSO or have been open for a second (`blocking_entries`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from service.domain.partitions.group_offsets import OFFSETS_TOPIC
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader
from service.kafka.log_range import LogRange
from service.wire.batches import Batch
from service.wire.errors import DecodeError
from service.wire.offset_keys import OffsetKey, decode_offset_key
from service.wire.records import read_records

PASS_BYTES: Final = 8 << 20
PASS_S: Final = 0.5
PLAIN_BYTES: Final = 8 << 20
"""Maximum size (bytes) of a decompressed batch; larger batches are not decoded. A group coordinator writes batches of
at most 1 MB by default."""


class SearchRange(NamedTuple):
    """The part of an open transaction that is to be read: its batches from offset `lo` on. `newest_ms`: the timestamp
    of the transaction's newest batch, as DescribeProducers reports it."""

    lo: int
    newest_ms: int


@dataclass(slots=True)
class OffsetCommits:
    """The offsets (group, topic and partition) that the batches of one transaction commit. `has_newest`: True if one of
    these batches has the timestamp `newest_ms` of SearchRange. `undecodable`: a mapping from reason to the number of
    records that could not be decoded."""

    offsets: set[OffsetKey] = field(default_factory=set)
    has_newest: bool = False
    undecodable: Counter[str] = field(default_factory=Counter)


class CommitsRead(NamedTuple):
    """The result of one pass over a partition. `commits`: a mapping from producer id to its commits in batches that
    begin below `reached`. `damaged`: the number of batches that could not be read."""

    commits: Mapping[int, OffsetCommits]
    reached: int
    read_bytes: int
    damaged: int


def read_commits(
    client: KafkaClient, partition: int, leader: Leader, searches: Mapping[int, SearchRange], hi: int
) -> CommitsRead:
    """Reads batches from the lowest `lo` of all searches on. Stops at `hi`, after PASS_BYTES or after PASS_S. Once the
    newest batch of every transaction was found, stops at the first newer batch that belongs to none of them.
    `searches`: a mapping from producer id to its search; not empty.

    Needs READ on the topic. Raises KafkaUnavailable or KafkaRefused.
    """
    lo = min(search_range.lo for search_range in searches.values())
    newest_ms = max(search_range.newest_ms for search_range in searches.values())
    found = {producer_id: OffsetCommits() for producer_id in searches}
    part = LogRange(client, OFFSETS_TOPIC, partition, leader, lo, hi, PASS_BYTES, PASS_S)
    for batch in part.batches():
        header = batch.header
        commits = found.get(header.producer_id)
        is_data = header.is_transactional and not header.is_control
        if commits is not None and is_data and header.base_offset >= searches[header.producer_id].lo:
            commits.has_newest |= header.max_timestamp_ms == searches[header.producer_id].newest_ms
            _collect(commits, batch)
        elif header.max_timestamp_ms > newest_ms and all(each.has_newest for each in found.values()):
            break  # not sooner: several batches may have the newest timestamp, which the group coordinator sets
    return CommitsRead(found, part.reached, part.read_bytes, part.damaged)


def _collect(commits: OffsetCommits, batch: Batch) -> None:
    try:
        records = read_records(batch, PLAIN_BYTES)
    except DecodeError as error:
        commits.undecodable[error.reason] += batch.header.records_count
        return
    for record in records:
        try:
            key = decode_offset_key(record.key)
        except DecodeError as error:
            commits.undecodable[error.reason] += 1
            continue
        if key is not None and record.value is not None:  # a tombstone deletes an offset
            commits.offsets.add(key)
