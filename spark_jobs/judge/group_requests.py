"""Asks a coordinator about its consumer groups on stalled partitions: a few requests for many groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.group_offsets import GroupOffset, IsolationLevel
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ShareLevelNotReported, ShareOffsetsNotReported
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.group_descriptions import GroupMembers, describe_groups, describe_share_groups
from service.kafka.groups import UNSTABLE_OFFSET_COMMIT, Committed, GroupOffsets, committed
from service.kafka.share_groups import ShareOffset, isolation_levels, reports_offsets, share_offsets
from spark_jobs.judge.group_rounds import Stalls
from spark_jobs.judge.pending_offsets import Pending

_MOVED: Final = frozenset({14, 15, 16})
"""The error codes COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR."""

NO_OFFSET: Final = -1

_DENIED: Final = 30
"""The error code GROUP_AUTHORIZATION_FAILED."""


class GroupsAnswer(NamedTuple):
    """A coordinator's answer about its groups.

    - `rows`: the groups' offsets on stalled partitions.
    - `topics`: a mapping from group to the topics on which the group has offsets or assigned partitions. A group
      without an answer is missing.
    - `denied`: groups for which permission is missing. Their rows come from the batches of open transactions.
    - `has_moved`: True if another broker now coordinates some of the groups.
    - `lags`: a mapping from (share group, topic, partition) to the reported lag.
    - `not_judged`: share groups for which it is not known whether they wait, with the reason.
    """

    rows: list[GroupOffset]
    topics: dict[str, set[str]]
    denied: frozenset[str]
    has_moved: bool
    lags: Mapping[tuple[str, str, int], int] = MappingProxyType({})
    not_judged: Mapping[str, Reason] = MappingProxyType({})

    def topics_of(self, group: str) -> set[str] | None:
        """Returns the topics of the group; an empty set if permission is missing. Returns None if there was no answer
        about the group: then the group is asked about again soon."""
        return set() if group in self.denied else self.topics.get(group)

    def with_share_groups(self, share: GroupsAnswer) -> GroupsAnswer:
        """Returns this answer, merged with the answer about share groups."""
        return GroupsAnswer(
            self.rows + share.rows,
            self.topics | share.topics,
            self.denied | share.denied,
            self.has_moved or share.has_moved,
            share.lags,
            share.not_judged,
        )


NO_ANSWER: Final = GroupsAnswer([], {}, frozenset(), False)
"""The empty answer: nothing is known about any group."""


def ask_groups(
    client: KafkaClient, node: int, groups: Sequence[str], stalled: Stalls, pending: Pending
) -> GroupsAnswer:
    """Asks `node` about groups that it coordinates. `pending`: the offsets that batches of open transactions commit.

    Kafka lists only partitions with an earlier commit, so a second request names the partitions that occur only in
    `pending`. If the coordinator's answer and the batches differ, the answer counts: an offset that the coordinator no
    longer holds back is not pending.

    Raises KafkaUnavailable or KafkaRefused.
    """
    answers = committed(client, node, groups, require_stable=True)
    answering = {
        group: dict(group_offsets.offsets)
        for group, group_offsets in answers.items()
        if group_offsets.error == errors.NONE
    }
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
    denied = frozenset(group for group, group_offsets in answers.items() if group_offsets.error == _DENIED)
    unstable |= {group: sorted(pending[group]) for group in denied & pending.keys()}
    described = describe_groups(client, node, sorted({*answering, *unstable}))
    rows = [
        GroupOffset(group, *place, offset, _count(described.get(group)), False)
        for group, offsets in seen.items()
        for place, offset in offsets.items()
    ]
    rows += [
        GroupOffset(
            group,
            *place,
            _offset(before.get(group), place),
            _count(described.get(group)),
            True,
            pending.get(group, {}).get(place),
        )
        for group, places in unstable.items()
        for place in places
    ]
    known = {(row.group, (row.topic, row.partition)) for row in rows}
    rows += [
        GroupOffset(group, *place, NO_OFFSET, has.number, False)
        for group in answering
        if (has := described.get(group)) is not None
        for place in sorted(has.assigned & stalled.places)
        if (group, place) not in known and _has_no_offset(answering[group].get(place))
    ]
    topics = {group: _topics(offsets, described.get(group)) for group, offsets in answering.items()}
    return GroupsAnswer(rows, topics, denied, any(answer.error in _MOVED for answer in answers.values()))


def ask_share_groups(client: KafkaClient, node: int, groups: Sequence[str], stalled: Stalls) -> GroupsAnswer:
    """Asks `node` about share groups that it coordinates: their start offsets, and their isolation level. Judges no
    group if the brokers do not report start offsets. Raises KafkaUnavailable or KafkaRefused."""
    if not reports_offsets(client):
        topics: dict[str, set[str]] = {group: set() for group in groups}
        return GroupsAnswer([], topics, frozenset(), False, not_judged=dict.fromkeys(groups, ShareOffsetsNotReported()))
    answers = share_offsets(client, node, groups)
    answering = {
        group: share_group_offsets.offsets
        for group, share_group_offsets in answers.items()
        if share_group_offsets.error == errors.NONE
    }
    levels = isolation_levels(client, node, sorted(answering))
    described = describe_share_groups(client, node, sorted(answering))
    rows, lags = [], {}
    for group, offsets in answering.items():
        members, level = described.get(group), levels.get(group)
        for place in sorted((offsets.keys() | _assigned(members)) & stalled.places):
            offset = offsets.get(place, ShareOffset(NO_OFFSET, -1))
            if level is not None and offset is not None:
                rows.append(
                    GroupOffset(group, *place, offset.start, _count(members), False, isolation=IsolationLevel(level))
                )
                if offset.lag >= 0:
                    lags[group, *place] = offset.lag
    return GroupsAnswer(
        rows,
        {group: _topics(offsets, described.get(group)) for group, offsets in answering.items()},
        frozenset(group for group, share_group_offsets in answers.items() if share_group_offsets.error == _DENIED),
        any(answer.error in _MOVED for answer in answers.values()),
        lags,
        {group: ShareLevelNotReported() for group in answering if levels.get(group) is None},
    )


def _count(members: GroupMembers | None) -> int | None:
    return None if members is None else members.number


def _assigned(members: GroupMembers | None) -> frozenset[TopicPartition]:
    return frozenset() if members is None else members.assigned


def _topics(offsets: Iterable[TopicPartition], members: GroupMembers | None) -> set[str]:
    return {topic for topic, _ in {*offsets, *_assigned(members)}}


def _has_no_offset(one: Committed | None) -> bool:
    """Returns whether the coordinator's answer about a partition proves that the group has no offset there. An error
    (no permission on the topic, a pending offset) proves nothing."""
    return one is None or (one.error == errors.NONE and one.offset < 0)


def _offset(answers: GroupOffsets | None, place: TopicPartition) -> int:
    """Returns the committed offset of `place`; NO_OFFSET if there is none, or if the answer has an error."""
    one = None if answers is None else answers.offsets.get(place)
    return NO_OFFSET if one is None or one.error != errors.NONE else one.offset
