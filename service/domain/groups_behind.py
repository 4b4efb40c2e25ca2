"""Finds the consumer groups behind a partition whose LSO is stalled, or behind one of the transactions open there.

A group on a partition of data waits for whichever transaction holds the LSO. A group with pending offsets waits for the
transaction that has them, wherever the LSO is; where the batches of that one could not be read, for any that is open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from service.domain.partitions.blocked_groups import Victim
from service.domain.partitions.facts import Place


class GroupsBehind:
    """An index of victims, all of one moment."""

    def __init__(self, victims: Iterable[Victim] = ()) -> None:
        self._blocked: dict[Place, dict[int | None, set[str]]] = {}
        self._pending: dict[tuple[Place, int], list[Victim]] = {}
        for one in victims:
            if one.is_blocked:
                by_producer = self._blocked.setdefault(one.behind, {})
                by_producer.setdefault(one.waits_for, set()).add(one.offset.group)
            if one.waits_for is not None:
                self._pending.setdefault((one.behind, one.waits_for), []).append(one)

    def at(self, place: Place) -> tuple[str, ...]:
        """All blocked groups behind the partition, by name."""
        return tuple(sorted(set().union(*self._blocked.get(place, {}).values())))

    def waiting(self, places: Iterable[Place], producer_id: int) -> tuple[str, ...]:
        """The blocked groups, by name, that wait for what the producer id has open on these partitions."""
        found: set[str] = set()
        for place in places:
            by_producer = self._blocked.get(place, {})
            found |= by_producer.get(None, set()) | by_producer.get(producer_id, set())
        return tuple(sorted(found))

    def pending(self, place: Place, producer_id: int) -> tuple[Victim, ...]:
        """The groups and partitions, blocked or without members, whose offsets are known to be part of what the
        producer id has open on this partition of `__consumer_offsets`."""
        return tuple(sorted(self._pending.get((place, producer_id), ()), key=lambda one: one.key))


NOBODY: Final = GroupsBehind()
