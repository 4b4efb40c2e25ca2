"""How far a log partition was read, and the rules that say when that position is void."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from service.domain.transaction_log.facts import Gap


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
