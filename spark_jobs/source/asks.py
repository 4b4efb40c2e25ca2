"""What the sampler wants to have read of stalled partitions, and how that is shared among tasks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

WORTH_A_TASK: Final = 250
"""Partitions; a task costs about 16 ms whatever it does."""


class StalledAsk(NamedTuple):
    """A partition to be read, as it was when it was last looked at."""

    topic: str
    partition: int
    topic_id: str
    leader: int
    leader_epoch: int
    log_start: int
    last_stable_offset: int
    high_watermark: int


def into_tasks(asks: Sequence[StalledAsk], cores: int) -> list[tuple[StalledAsk, ...]]:
    """At least one list and at most `cores`, each asking few leaders."""
    by_leader = sorted(asks, key=lambda ask: (ask.leader, ask.topic, ask.partition))
    tasks = max(1, min(cores, -(-len(asks) // WORTH_A_TASK)))
    size = -(-len(asks) // tasks)
    return [tuple(by_leader[i * size : (i + 1) * size]) for i in range(tasks)]
