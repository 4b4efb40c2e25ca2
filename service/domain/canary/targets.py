"""Names the canary's transactional.ids and its topic. For the next transaction at a broker, chooses the id, the
partition of the transaction log, and the partition of the topic. The name alone shows whether an id or topic is the
canary's, so the judge needs no settings to leave it out of findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Final, NamedTuple

from service.domain.canary.rounds import (
    BROKER_NOT_AVAILABLE,
    NOT_ENOUGH_REPLICAS,
    REQUEST_TIMED_OUT,
    Failure,
    Phase,
)
from service.domain.transaction_log.coordinator_partition import partition_count, partition_of

ID_PREFIX: Final = "txnscope-canary-"
TOPIC_WORD: Final = "txnscope-canary"
"""A word that the name of the canary's topic must contain, so that nobody chooses an application's topic by mistake:
the canary deletes records in its topic, and findings about topics with this word are not reported."""

_ID_PREFIX_BYTES: Final = ID_PREFIX.encode()


def is_canary_id(transactional_id: bytes | None) -> bool:
    return transactional_id is not None and transactional_id.startswith(_ID_PREFIX_BYTES)


def is_canary_topic(topic: str | None) -> bool:
    return topic is not None and TOPIC_WORD in topic


@lru_cache(maxsize=256)
def canary_id(token: str, log_partition: int, partition_count: int) -> str:
    """Returns the canary's id for one partition of the transaction log: the first numbered id that hashes to this
    partition. So each partition has one id, which is used again and again.

    `token`: distinguishes the canaries of different stores, which would fence each other under the same id.
    """
    ids = (f"{ID_PREFIX}{token}-{log_partition}-{number}" for number in count())
    return next(
        transactional_id for transactional_id in ids if partition_of(transactional_id, partition_count) == log_partition
    )


MOST_COORDINATORS: Final = 24
"""Maximum number of coordinators that are probed. Each one takes two Kafka clients."""


class Replicated(NamedTuple):
    """A partition: its leader (-1 if it has none), and the numbers of its replicas and of its in-sync replicas."""

    partition: int
    leader: int
    replicas: int
    in_sync: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The state of a cluster from which the canary chooses its targets. `brokers`: the ids of the live brokers. `log`:
    the partitions of the transaction log. `topic`: the partitions of the canary's topic. `min_in_sync`: the number of
    in-sync replicas that the transaction log needs for writes; None if not known."""

    brokers: frozenset[int]
    log: tuple[Replicated, ...]
    topic: tuple[Replicated, ...]
    min_in_sync: int | None = None

    @property
    def leaderless(self) -> int:
        """The number of partitions of the transaction log without a leader. Ids that hash to them can have no
        transaction."""
        return sum(one.leader < 0 for one in self.log)

    def leads(self, broker: int) -> list[Replicated]:
        """Returns the partitions of the transaction log that the broker leads, those with the fewest replicas in sync
        first."""
        return sorted((one for one in self.log if one.leader == broker), key=lambda one: (one.in_sync, one.partition))


class Target(NamedTuple):
    """The coordinator (`broker`), the id and the partitions of one transaction of the canary. `leader`: the broker that
    leads the partition of the topic."""

    broker: int
    log_partition: int
    transactional_id: str
    topic_partition: int
    leader: int


def target_of(layout: Layout, broker: int, token: str, before: Target | None = None) -> Target | None:
    """Returns the target for the broker's next round; None if the broker coordinates nothing, or if no partition of the
    topic has a leader.

    Chooses the log partition with the fewest replicas in sync, because that partition fails first. If several have
    equally few, prefers the log partition of the target `before`, so that ids are used again. Prefers a partition of
    the topic that the same broker leads, so that another broker's failure does not count as a failure of this broker.
    """
    led, writable = layout.leads(broker), {one.partition: one.leader for one in layout.topic if one.leader >= 0}
    if not led or not writable:
        return None
    worst = [one.partition for one in led if one.in_sync == led[0].in_sync]
    partition = before.log_partition if before is not None and before.log_partition in worst else worst[0]
    own = [at for at, leader in writable.items() if leader == broker] or list(writable)
    topic_partition = before.topic_partition if before is not None and before.topic_partition in own else own[0]
    of_log = partition_count(one.partition for one in layout.log)
    return Target(broker, partition, canary_id(token, partition, of_log), topic_partition, writable[topic_partition])


def absence(layout: Layout, broker: int) -> Failure | None:
    """Returns the reason why `target_of` gives the broker no target, as the failure of a round. Returns None if the
    broker is live and coordinates nothing, which is no failure."""
    if broker not in layout.brokers:
        return Failure(Phase.COORDINATOR, BROKER_NOT_AVAILABLE, "the broker is not among the cluster's live brokers")
    if layout.leads(broker):
        return Failure(Phase.PRODUCE, "LEADER_NOT_AVAILABLE", "no partition of the canary's topic has a leader")
    return None


_UNREPLICATED: Final = frozenset({REQUEST_TIMED_OUT, "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})
"""Errors that a client gets if its coordinator cannot append to the transaction log. Their names do not show this
cause."""


def explained(failure: Failure, layout: Layout, target: Target) -> Failure:
    """Returns a failure that names the cause if the target's log partition has too few in-sync replicas, and the error
    of `failure` can come from that. Otherwise returns `failure`. Too few in-sync replicas cannot be why a record is not
    visible, because then the commit is in the log."""
    if failure.phase == Phase.VISIBLE:
        return failure
    one = next((one for one in layout.log if one.partition == target.log_partition), None)
    if one is None or layout.min_in_sync is None or failure.error not in _UNREPLICATED:
        return failure
    needed = min(layout.min_in_sync, one.replicas)  # as in Partition.effectiveMinIsr (KIP-966)
    if one.in_sync >= needed:
        return failure
    where = f"partition {one.partition} of __transaction_state has {one.in_sync} of {one.replicas} replicas in sync"
    return Failure(failure.phase, NOT_ENOUGH_REPLICAS, f"{where}, and needs {needed}")


def coordinators(layout: Layout, chosen: Sequence[int]) -> list[int]:
    """Returns the brokers in `chosen`. If `chosen` is empty, returns the brokers that lead a partition of the
    transaction log, at most MOST_COORDINATORS."""
    if chosen:
        return list(chosen)
    return sorted({one.leader for one in layout.log if one.leader >= 0})[:MOST_COORDINATORS]


def assignment(brokers: Sequence[int], replicas: int) -> list[list[int]]:
    """Returns the replicas of each partition of the canary's topic. There is one partition for each broker: this broker
    is the preferred leader, and the next brokers in turn have the other replicas."""
    ordered = sorted(brokers)
    return [
        [ordered[(at + step) % len(ordered)] for step in range(min(replicas, len(ordered)))]
        for at in range(len(ordered))
    ]
