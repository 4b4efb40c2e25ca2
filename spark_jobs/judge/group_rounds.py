"""Chooses the groups to ask about in a round. Groups that may be blocked are asked about often, all other groups
rarely. A batch has at most GROUPS_AT_ONCE groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.partitions.blocked_groups import stalled_since_ms
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, LsoSample, offsets_partition

CONCERNED_EVERY_MS: Final = 2_000
OTHERS_EVERY_MS: Final = 30_000
GROUPS_AT_ONCE: Final = 50
MOST_GROUPS: Final = 20_000
"""Maximum number of groups that are kept of each of two kinds: groups that coordinators list, and groups that commit
offsets in open transactions. If there are more of a kind, the first in alphabetical order are kept."""

SKIP_MS: Final = 10_000
"""Time (ms) for which a broker that did not answer is not asked again."""

_NEVER_MS: Final = 1 << 62


class Stalls(NamedTuple):
    """The stalled partitions. `places`: data partitions. `offsets`: the numbers of the stalled partitions of
    `__consumer_offsets`. `offsets_partitions`: how many partitions `__consumer_offsets` has; None if this is not
    known."""

    places: frozenset[TopicPartition]
    offsets: frozenset[int]
    offsets_partitions: int | None

    def __bool__(self) -> bool:
        return bool(self.places or self.offsets)

    def holds_offsets_of(self, group: str) -> bool:
        """Returns whether the partition of `__consumer_offsets` that has the group's offsets is stalled. If it is, an
        offset that the group commits takes effect only after a transaction has ended."""
        if not self.offsets or self.offsets_partitions is None:
            return False
        return offsets_partition(group, self.offsets_partitions) in self.offsets


def stalled_partitions(
    ends: Mapping[TopicPartition, LsoSample], offsets_partitions: int | None, as_of_ms: int | None
) -> Stalls:
    """Returns the partitions that count as stalled at `as_of_ms`, because their LSO has been below the high watermark
    for long enough. Returns no partitions if `as_of_ms` is None."""
    found = (
        []
        if as_of_ms is None
        else [place for place, sample in ends.items() if stalled_since_ms(sample, as_of_ms) is not None]
    )
    return Stalls(
        frozenset(place for place in found if place[0] != OFFSETS_TOPIC),
        frozenset(partition for topic, partition in found if topic == OFFSETS_TOPIC),
        offsets_partitions,
    )


class UnresponsiveBrokers:
    """Brokers that did not answer. A broker is not asked again within SKIP_MS of its failure."""

    def __init__(self) -> None:
        self._until_ms: dict[int, int] = {}

    def note_failure(self, node: int, now_ms: int) -> None:
        self._until_ms[node] = now_ms + SKIP_MS

    def is_skipped(self, node: int, now_ms: int) -> bool:
        return self._until_ms.get(node, 0) > now_ms


class GroupSchedule:
    """A schedule of the questions about groups. Remembers each group's coordinator, the time of the last question, and
    the topics on which the group has offsets."""

    def __init__(self) -> None:
        self.coordinators: dict[str, int] = {}
        self._listed: dict[str, int] = {}
        self._named: dict[str, int] = {}
        self._not_listed: frozenset[str] = frozenset()
        self._not_named: frozenset[str] = frozenset()
        self._asked_ms: dict[str, int] = {}
        self._topics: dict[str, frozenset[str]] = {}

    def set_listed(self, coordinators: Mapping[str, int]) -> None:
        """Sets the groups that coordinators list. Groups that are neither listed nor named are forgotten."""
        self._listed, self._not_listed = _bounded(coordinators)
        self._prune()

    def set_named(self, coordinators: Mapping[str, int]) -> None:
        """Sets the named groups: the groups that commit offsets in open transactions. Kafka's list of groups may lack
        them, because the list contains a group only if DESCRIBE on the group is allowed."""
        if coordinators != self._named:
            self._named, self._not_named = _bounded(coordinators)
            self._prune()

    @property
    def left_out(self) -> int:
        """Returns the number of groups about which nothing is asked because there are more than MOST_GROUPS."""
        return len((self._not_listed | self._not_named) - self.coordinators.keys())

    def note_asked(self, group: str, now_ms: int, topics: Iterable[str] | None) -> None:
        """Notes that the group was asked about. If `topics` is None, there was no answer, and the group is due again
        soon."""
        self._asked_ms[group] = now_ms if topics is not None else now_ms - OTHERS_EVERY_MS + CONCERNED_EVERY_MS
        if topics is not None:
            self._topics[group] = frozenset(topics)

    def due(self, stalled: Stalls, now_ms: int) -> list[tuple[int, list[str]]]:
        """Returns the groups to ask about, in batches: (broker, at most GROUPS_AT_ONCE of the groups that it
        coordinates). Groups that have waited longest come first."""
        topics = {topic for topic, _ in stalled.places}
        due = [
            (at_ms, group) for group in self.coordinators if (at_ms := self._due_ms(group, stalled, topics)) <= now_ms
        ]
        batches: list[tuple[int, list[str]]] = []
        filling: dict[int, list[str]] = {}
        for _, group in sorted(due):
            node = self.coordinators[group]
            if node not in filling or len(filling[node]) == GROUPS_AT_ONCE:
                filling[node] = []
                batches.append((node, filling[node]))
            filling[node].append(group)
        return batches

    def _prune(self) -> None:
        self.coordinators = self._listed | self._named
        self._asked_ms = {group: ms for group, ms in self._asked_ms.items() if group in self.coordinators}
        self._topics = {group: topics for group, topics in self._topics.items() if group in self.coordinators}

    def _due_ms(self, group: str, stalled: Stalls, topics: set[str]) -> int:
        """Returns the time (ms) at which the group is due. While no data partition is stalled, only groups with offsets
        on a stalled partition of `__consumer_offsets` are ever due. A group that can be due is due at once if it was
        never asked about."""
        asked_ms = self._asked_ms.get(group)
        is_concerned = stalled.holds_offsets_of(group) or not topics.isdisjoint(self._topics.get(group, ()))
        if not is_concerned and not stalled.places:
            return _NEVER_MS
        if asked_ms is None:
            return 0
        return asked_ms + (CONCERNED_EVERY_MS if is_concerned else OTHERS_EVERY_MS)


def _bounded(coordinators: Mapping[str, int]) -> tuple[dict[str, int], frozenset[str]]:
    """Returns the first MOST_GROUPS groups in alphabetical order, with their brokers, and the names of the others."""
    kept = dict(sorted(coordinators.items())[:MOST_GROUPS])
    return kept, frozenset(coordinators.keys() - kept.keys())
