"""Applications as people see them: their ids, their ended transactions, and the partitions and groups that their open
transactions hold up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from service.domain.partitions.blocked_groups import AffectedGroup
from service.domain.partitions.facts import TopicPartition
from service.store.queries import applications, partitions
from service.store.queries.applications import ApplicationRow
from service.store.queries.partitions import read_affected_groups
from service.views.partitions.judged import MOST_JUDGED, JudgedPartition, judge, judged_stalled


class Holders(NamedTuple):
    """The applications whose open transactions hold up partitions. `judged`: the judged partitions. `names`: a mapping
    from the key of a transactional.id to the name of its application."""

    judged: Mapping[TopicPartition, JudgedPartition]
    names: Mapping[bytes, str]

    @classmethod
    def read(cls, connection: Connection, cluster_id: int, judged: Iterable[JudgedPartition]) -> Holders:
        of_places = {partition.row.topic_partition: partition for partition in judged}
        owners = (entry.relation.owner for partition in of_places.values() for entry in partition.entries)
        keys = {owner.transactional_id for owner in owners if owner is not None}
        return cls(of_places, applications.applications_of(connection, cluster_id, keys))

    def of_partition(self, place: TopicPartition, producer_id: int | None = None) -> str | None:
        """Returns the application whose transaction holds the LSO of the partition `place`. If `producer_id` is given,
        returns the application of this producer id's open transaction on the partition. Returns None if the application
        is not known."""
        partition = self.judged.get(place)
        if partition is None:
            return None
        if producer_id is None:
            return self.of(partition)
        found = (entry.relation.owner for entry in partition.entries if entry.entry.producer_id == producer_id)
        owner = next(found, None)
        return None if owner is None else self.names.get(owner.transactional_id)

    def of(self, judged: JudgedPartition) -> str | None:
        """Returns the application whose transaction holds the LSO of the partition; None if that is not known."""
        return None if judged.owner is None else self.names.get(judged.owner.transactional_id)

    def of_group(self, group: AffectedGroup) -> str | None:
        """Returns the application of the open transaction that holds the group up, or can hold it up; None if the
        application is not known."""
        return self.of_partition(group.stalled_partition, group.waits_for_producer_id)


def holders_for(connection: Connection, cluster_id: int, affected: Sequence[AffectedGroup]) -> Holders:
    """Reads the holders of the stalled partitions that affect the groups in `affected`."""
    places = {group.stalled_partition for group in affected}
    rows = partitions.stalled(connection, cluster_id, MOST_JUDGED) if places else []
    found = judge(connection, cluster_id, [row for row in rows if row.topic_partition in places])
    return Holders.read(connection, cluster_id, found)


class SeenApplication(NamedTuple):
    """An application, the partitions whose LSO its open transactions hold, and the groups that are blocked on these
    partitions."""

    row: ApplicationRow
    partitions: tuple[TopicPartition, ...] = ()
    groups: tuple[str, ...] = ()


def see(
    connection: Connection, cluster_id: int, rows: Sequence[ApplicationRow], standing: Sequence[JudgedPartition]
) -> list[SeenApplication]:
    """Returns the applications, in the order of `rows`, with the partitions that they stall and the groups that they
    block. `standing`: the stalled partitions, judged."""
    holders = Holders.read(connection, cluster_id, standing)
    places: dict[str, list[TopicPartition]] = {}
    for place in holders.judged:
        if (name := holders.of_partition(place)) is not None:
            places.setdefault(name, []).append(place)
    groups: dict[str, set[str]] = {}
    for affected_group in read_affected_groups(connection, cluster_id):
        if affected_group.is_blocked and (name := holders.of_group(affected_group)) is not None:
            groups.setdefault(name, set()).add(affected_group.offset.group)
    return [
        SeenApplication(row, tuple(sorted(places.get(row.name, ()))), tuple(sorted(groups.get(row.name, ()))))
        for row in rows
    ]


def see_now(connection: Connection, cluster_id: int, rows: Sequence[ApplicationRow]) -> list[SeenApplication]:
    """Does the same as `see`, for the partitions that are stalled now."""
    return see(connection, cluster_id, rows, judged_stalled(connection, cluster_id))
