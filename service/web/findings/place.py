"""The place of a finding, and the groups that wait there. The place is the finding's partition with its ruler, or the
stalled partitions that its transaction lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind
from service.domain.partitions.blocked_groups import AffectedGroup
from service.domain.partitions.facts import TopicPartition
from service.domain.transaction_log.states import TOPIC
from service.store.queries import partitions, transactions
from service.store.queries.partitions import read_affected_groups
from service.store.rows.ids import IdRow
from service.views.partitions.blocking_chain import waiting_first
from service.views.partitions.judged import JudgedPartition, judge
from service.web.charts.ruler import Ruler
from service.web.partitions.partition_page import ruler_of

HELD_READ: Final = 20


class Held(NamedTuple):
    """A stalled partition that the transaction of a finding lists. `is_its_own`: True if the id of this transaction
    also owns the partition's blocker."""

    judged: JudgedPartition
    waiting: tuple[str, ...]
    is_its_own: bool


class Where(NamedTuple):
    """The place of a finding. `judged`, `ruler`: the finding's own partition, if it has one.

    For a finding about an id: `row` is the row of the id. `listed` is the number of partitions that the id's
    transaction lists. `held`: the stalled ones among the first HELD_READ of these partitions.
    """

    judged: JudgedPartition | None = None
    ruler: Ruler | None = None
    groups: tuple[AffectedGroup, ...] = ()
    held: tuple[Held, ...] = ()
    listed: int = 0
    row: IdRow | None = None

    @property
    def hidden(self) -> int:
        return 0 if self.judged is None else self.judged.row.hidden_records

    @property
    def hidden_bytes(self) -> int | None:
        """Returns the number of bytes that read_committed consumers do not see; None if this number is not known."""
        return None if self.judged is None else self.judged.row.hidden_bytes


def where_of(connection: Connection, cluster_id: int, cluster: str, finding: Finding) -> Where:
    """Returns the place of the finding as of the last observation in the store; Kafka is not asked. A resolved finding
    has no place: its partition has changed since."""
    subject = finding.subject
    if not finding.is_open:
        return Where()
    victims = read_affected_groups(connection, cluster_id)
    if subject.topic is not None and subject.partition is not None and subject.topic != TOPIC:
        place = subject.topic, subject.partition
        return _at(connection, cluster_id, cluster, finding, place, victims)
    if subject.transactional_id is None:
        return Where()
    row = transactions.find(connection, cluster_id, subject.transactional_id)
    listed = transactions.participants(connection, cluster_id, [subject.transactional_id])
    places = listed.get(subject.transactional_id, [])
    held = _held(connection, cluster_id, places, victims, subject.transactional_id)
    behind = {one.judged.row.topic_partition for one in held}
    groups = waiting_first(victim for victim in victims if victim.stalled_partition in behind)
    return Where(groups=tuple(groups), held=held, listed=len(places), row=row)


def _at(
    connection: Connection,
    cluster_id: int,
    cluster: str,
    finding: Finding,
    place: TopicPartition,
    victims: Sequence[AffectedGroup],
) -> Where:
    row = partitions.find(connection, cluster_id, *place)
    if row is None:
        return Where()
    (judged,) = judge(connection, cluster_id, [row])
    if finding.kind == Kind.BLOCKED_GROUP:
        own = [victim for victim in victims if victim.key == (finding.subject.group, *place)]
    else:
        own = [victim for victim in victims if victim.stalled_partition == place]
        if (producer_id := finding.subject.producer_id) is not None:
            own = [group for group in own if group.waits_for_producer_id in (None, producer_id)]
    ruler = ruler_of(judged, victims, cluster)
    return Where(judged, ruler, tuple(waiting_first(own)))


def _held(
    connection: Connection,
    cluster_id: int,
    places: Sequence[TopicPartition],
    victims: Sequence[AffectedGroup],
    id_: bytes,
) -> tuple[Held, ...]:
    rows = [partitions.find(connection, cluster_id, *place) for place in places[:HELD_READ]]
    standing = [row for row in rows if row is not None and row.stalled_since_ms is not None]
    found = []
    for judged in judge(connection, cluster_id, standing):
        place, owner = judged.row.topic_partition, judged.owner
        waiting = {victim.offset.group for victim in victims if victim.stalled_partition == place and victim.is_blocked}
        is_its_own = owner is not None and owner.transactional_id == id_
        found.append(Held(judged, tuple(sorted(waiting)), is_its_own))
    return tuple(found)
