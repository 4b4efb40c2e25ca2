"""Checks whether a partition's log is still the log that was read before. Compares the position up to which the
partition was read with the brokers' answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import DESCRIBE, READ, LeadersUnresponsive, NoPermission
from service.domain.transaction_log.facts import Gap
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout
from service.kafka.offsets import EARLIEST, LATEST, Offsets, epoch_end_offset, list_offsets


@dataclass(frozen=True, slots=True)
class LogObservation:
    """One observation of a topic's logs. `ends` were requested at `asked_at_ms` (this machine's clock). Partitions that
    did not answer are in `unanswered`, with an error code."""

    layout: TopicLayout
    asked_at_ms: int
    starts: dict[int, int]
    ends: dict[int, int]
    unanswered: dict[int, int]  # partition: error code


def observe_log(client: KafkaClient, layout: TopicLayout, now_ms: int) -> LogObservation:
    """Observes the logs of a topic: their ends first, then their starts. Raises KafkaUnavailable or
    KafkaRefused."""
    ends: Offsets = list_offsets(client, layout, LATEST)
    starts = list_offsets(client, layout, EARLIEST)
    answered = ends.found.keys() & starts.found.keys()
    return LogObservation(
        layout,
        now_ms,
        {p: starts.found[p] for p in sorted(answered)},
        {p: ends.found[p] for p in sorted(answered)},
        dict(sorted((ends.errors | starts.errors).items())),
    )


def divergence(client: KafkaClient, seen: LogObservation, partition: int, position: LogPosition) -> Gap | None:
    """Returns a gap if the log has to be read again, else None. The gap begins where the log differs from the log that
    was read up to `position`; if nothing differs, it begins at the position. A gap has one of three causes:

    - The topic has another id: it was created again.
    - The log, or the leader epoch of the position, ends below the position: the present leader never had all records up
      to the position (unclean election, lost disk).
    - The position is stale: the log is the same, but its older records must be read again to find the ids that are
      gone.

    Raises KafkaUnavailable or KafkaRefused.
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


def unanswered_reason(seen: LogObservation) -> Reason | None:
    """Returns why some partitions did not answer; None if all of them did."""
    denied = [p for p, code in seen.unanswered.items() if code == errors.TOPIC_AUTHORIZATION_FAILED]
    topic = seen.layout.topic
    if denied:
        return NoPermission(topic, (DESCRIBE, READ))
    if seen.unanswered:
        return LeadersUnresponsive(topic, len(seen.unanswered), len(seen.layout.leaders), tuple(seen.unanswered)[:5])
    return None


class LogPosition(NamedTuple):
    """A position in a log: all records below `next_offset` of this generation are in the store or in a planned batch.
    `leader_epoch`: the leader's epoch in the last range, even if this range was empty. Before any range, it is the
    epoch that was stored at the first start, or -1 if none was stored.

    Records below `counted_from` update the state but no counter: they were written before counting began, or were
    counted already. `stale`: the log was read so long ago that tombstones written since then may have been compacted
    away.
    """

    topic_id: str
    generation: int
    next_offset: int
    leader_epoch: int
    counted_from: int
    stale: bool = False

    def restarted(self, topic_id: str, begin: int, gap: Gap) -> LogPosition:
        """Returns the position from which to read a log again, in a new generation that begins at `begin`. Records from
        `gap.from_offset` on are counted."""
        return LogPosition(topic_id, self.generation + 1, begin, -1, gap.from_offset)


def to_json(positions: Mapping[int, LogPosition]) -> str:
    return json.dumps({str(partition): position for partition, position in positions.items()})


def from_json(text: str) -> dict[int, LogPosition]:
    return {int(partition): LogPosition(*fields) for partition, fields in json.loads(text).items()}
