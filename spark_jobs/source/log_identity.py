"""Whether a partition's log is still the one that was read: its position, and what its leader answers about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import DESCRIBE, READ, LeadersSilent, NoPermission
from service.domain.transaction_log.facts import Gap
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.metadata import TopicLayout
from service.kafka.offsets import EARLIEST, LATEST, Offsets, epoch_end_offset, list_offsets


@dataclass(frozen=True, slots=True)
class Look:
    """`ends` were asked for at `asked_at_ms` (this machine's clock); partitions that did not answer are in `silent`."""

    layout: TopicLayout
    asked_at_ms: int
    starts: dict[int, int]
    ends: dict[int, int]
    silent: dict[int, int]  # partition: error code


def look(client: KafkaClient, layout: TopicLayout, now_ms: int) -> Look:
    """Ends first: a start that moves meanwhile can only lie lower. Raises KafkaUnavailable."""
    ends: Offsets = list_offsets(client, layout, LATEST)
    starts = list_offsets(client, layout, EARLIEST)
    answered = ends.found.keys() & starts.found.keys()
    return Look(
        layout,
        now_ms,
        {p: starts.found[p] for p in sorted(answered)},
        {p: ends.found[p] for p in sorted(answered)},
        dict(sorted((ends.errors | starts.errors).items())),
    )


def other_log(client: KafkaClient, seen: Look, partition: int, position: LogPosition) -> Gap | None:
    """Whether what lies there now is not what was read up to `position`: from which offset on, and why.

    Another topic id: created again. An end below the position, or an older leader epoch that ends below it: a replica
    that never had those records leads now (unclean election, lost disk). A stale position: the same log, but its past
    must be read again to see which ids are gone. Raises KafkaUnavailable.
    """
    if seen.layout.topic_id != position.topic_id:
        return Gap(seen.starts[partition], max(position.next_offset, seen.starts[partition]), "recreated")
    valid_to = seen.ends[partition]
    leader = seen.layout.leaders[partition]
    if position.leader_epoch >= 0 and leader.epoch != position.leader_epoch:
        end = epoch_end_offset(client, seen.layout.topic, partition, leader, position.leader_epoch)
        valid_to = valid_to if end is None else min(valid_to, end)
    if valid_to < position.next_offset:
        return Gap(valid_to, position.next_offset, "diverged")
    if position.stale:
        return Gap(position.next_offset, position.next_offset, "away")
    return None


def no_more(seen: Look, positions: Mapping[int, LogPosition]) -> dict[int, Gap]:
    """Partitions that the topic does not have since it was created again: all that was read of them."""
    return {
        p: Gap(0, position.next_offset, "recreated")
        for p, position in positions.items()
        if p not in seen.layout.leaders and position.topic_id != seen.layout.topic_id
    }


def silence(seen: Look) -> Reason | None:
    """Why not all of it could be asked."""
    denied = [p for p, code in seen.silent.items() if code == errors.TOPIC_AUTHORIZATION_FAILED]
    topic = seen.layout.topic
    if denied:
        return NoPermission(topic, (DESCRIBE, READ))
    if seen.silent:
        return LeadersSilent(topic, len(seen.silent), len(seen.layout.leaders), tuple(seen.silent)[:5])
    return None


class LogPosition(NamedTuple):
    """Everything below `next_offset` of this generation of the log is in the store.

    `leader_epoch`: of the leader it was read from (-1: nothing was read yet). Offsets below `counted_from` feed state
    but no counter: they lay in the log before anybody counted, or were counted already. `stale`: it was read so long
    ago that tombstones written meanwhile may have been compacted away.
    """

    topic_id: str
    generation: int
    next_offset: int
    leader_epoch: int
    counted_from: int
    stale: bool = False

    def read_again(self, topic_id: str, begin: int, gap: Gap) -> LogPosition:
        """The log is another one from `gap.from_offset` on: a new generation, read from `begin`."""
        return LogPosition(topic_id, self.generation + 1, begin, -1, gap.from_offset)


def to_json(positions: Mapping[int, LogPosition]) -> str:
    return json.dumps({str(partition): position for partition, position in positions.items()})


def from_json(text: str) -> dict[int, LogPosition]:
    return {int(partition): LogPosition(*fields) for partition, fields in json.loads(text).items()}
