"""Asks a coordinator about its consumer groups on stalled partitions: a few requests for many groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from service.domain.partitions.facts import TopicPartition
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.groups import UNSTABLE_OFFSET_COMMIT, GroupOffsets, committed, members
from service.store.writers.groups import ObservedGroupOffset
from spark_jobs.judge.group_rounds import Stalls
from spark_jobs.judge.pending_offsets import NOTHING_PENDING, Pending

_MOVED: Final = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""

_DENIED: Final = 30
"""GROUP_AUTHORIZATION_FAILED"""


class GroupsAnswer(NamedTuple):
    """A coordinator's answer about its groups: `rows` on stalled partitions, and by group the `topics` it has offsets
    on. A group without an answer has no topics: either permission is missing (`denied`; its rows come from the batches
    of open transactions), or another broker coordinates it now (`has_moved`)."""

    rows: list[ObservedGroupOffset]
    topics: dict[str, set[str]]
    denied: frozenset[str]
    has_moved: bool

    def topics_of(self, group: str) -> set[str] | None:
        """Returns the topics of the group; None if the group is to be asked about again soon."""
        return set() if group in self.denied else self.topics.get(group)


def ask_groups(
    client: KafkaClient, node: int, groups: Sequence[str], stalled: Stalls, pending: Pending = NOTHING_PENDING
) -> GroupsAnswer:
    """Asks `node` about groups that it coordinates. Raises KafkaUnavailable or KafkaRefused.

    `pending`: the offsets that batches of open transactions commit. Kafka lists only partitions with an earlier commit:
    a partition for which a group has nothing but a pending commit shows only if `pending` names it.

    The coordinator's answer wins: an offset that it does not hold back any more is not pending, whatever the batches
    contain.
    """
    answers = committed(client, node, groups, require_stable=True)
    answering = {group: dict(one.offsets) for group, one in answers.items() if one.error == errors.NONE}
    unlisted = {g: places for g in answering if (places := pending.get(g, {}).keys() - answering[g].keys())}
    if unlisted:
        for group, more in committed(client, node, list(unlisted), require_stable=True, places=unlisted).items():
            answering[group] |= more.offsets
    seen: dict[str, dict[TopicPartition, int]] = {}
    unstable: dict[str, list[TopicPartition]] = {}
    for group, offsets in answering.items():
        holds_offsets = stalled.holds_offsets_of(group)
        for place, one in offsets.items():
            if one.error == errors.NONE:
                if one.offset >= 0 and place in stalled.places:
                    seen.setdefault(group, {})[place] = one.offset
            # any other error, such as a missing permission on the topic, leaves what the batches contain
            elif place in pending.get(group, ()) or (
                one.error == UNSTABLE_OFFSET_COMMIT and (holds_offsets or place in stalled.places)
            ):
                unstable.setdefault(group, []).append(place)
    before = committed(client, node, list(unstable), require_stable=False, places=unstable) if unstable else {}
    denied = frozenset(group for group, one in answers.items() if one.error == _DENIED)
    unstable |= {group: sorted(pending[group]) for group in denied & pending.keys()}
    counts = members(client, node, sorted({*seen, *unstable}))
    rows = [
        ObservedGroupOffset(group, *place, offset, counts.get(group), False)
        for group, offsets in seen.items()
        for place, offset in offsets.items()
    ]
    rows += [
        ObservedGroupOffset(
            group,
            *place,
            _offset(before.get(group), place),
            counts.get(group),
            True,
            pending.get(group, {}).get(place),
        )
        for group, places in unstable.items()
        for place in places
    ]
    topics = {group: {topic for topic, _ in offsets} for group, offsets in answering.items()}
    return GroupsAnswer(rows, topics, denied, any(one.error in _MOVED for one in answers.values()))


def _offset(answers: GroupOffsets | None, place: TopicPartition) -> int:
    """Returns the committed offset; -1 if there is none."""
    one = None if answers is None else answers.offsets.get(place)
    return -1 if one is None or one.error != errors.NONE else one.offset
