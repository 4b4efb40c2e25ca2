"""The result of `doctor`'s examination of a cluster: the values that the code that asks Kafka hands to the code that
explains the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import TransactionsSeen


class BrokerReport(NamedTuple):
    """A broker. `apis`: a mapping from API key to the highest version that the broker supports. If the broker does not
    answer at the address that it advertises, `why` gives the reason and `apis` is empty.

    `newest_metadata_version`: the highest level of `metadata.version` that the broker supports; None if it reports
    none.
    """

    node: int
    host: str
    port: int
    why: str | None
    apis: Mapping[int, int]
    newest_metadata_version: int | None


class LogReport(NamedTuple):
    """The topic `__transaction_state`. `exists`: None if not known, because DESCRIBE is denied or for the reason `why`.
    `may_read`: None if not known.

    `ids`: the number of ids in the part of the log that was read. `is_whole`: True if the whole log was read. `seen`:
    the sign that transactions are used although the topic does not exist; None if there is no such sign.
    """

    exists: bool | None
    partitions: int
    leaderless: tuple[int, ...]
    may_read: bool | None
    why: str | None
    ids: int
    is_whole: bool
    seen: TransactionsSeen | None = None


class IdsReport(NamedTuple):
    """Transactional ids. `listed`: the number of ids that ListTransactions lists; None if a request failed, for the
    reason `why`. `hidden`: ids in the log to which DescribeTransactions denies access. `any_denied`: True if
    DescribeTransactions denies access even to an invented id, so that further ids may be hidden; None if not known."""

    listed: int | None
    hidden: tuple[str, ...]
    any_denied: bool | None
    why: str | None


class TopicsReport(NamedTuple):
    """Topics.

    - `globs`: the patterns of `--topics`; `*` without this flag. `partitions`: a mapping from each topic that Kafka
      lists to its number of partitions.
    - `mirrored`, `left_out`: topics that are not watched, because they are mirrored, or because `--topics` leaves them
      out. `absent`: names in `--topics` that no topic has.
    - `not_describable`: topics to be watched on which DESCRIBE is denied; their names are known from `--topics` or the
      transaction log. `denied_globs`: the patterns that may match hidden topics, because Kafka denies access even to an
      invented topic that matches.
    - DescribeProducers was sent for one partition of each watched topic. It is allowed on the topics `readable`, denied
      on `unreadable`, and got no clear answer on `unanswered`, for the reason `unanswered_why`. `with_open`: topics
      with an open transaction on that partition.
    """

    globs: tuple[str, ...]
    partitions: Mapping[str, int]
    mirrored: tuple[str, ...]
    left_out: tuple[str, ...]
    absent: tuple[str, ...]
    not_describable: tuple[str, ...]
    denied_globs: tuple[str, ...]
    readable: tuple[str, ...]
    unreadable: tuple[str, ...]
    unanswered: tuple[str, ...]
    leaderless: tuple[tuple[str, int], ...]
    unanswered_why: str | None
    with_open: tuple[str, ...] = ()

    @property
    def watched(self) -> tuple[str, ...]:
        aside = {*self.mirrored, *self.left_out}
        return tuple(topic for topic in self.partitions if topic not in aside)


class GroupsReport(NamedTuple):
    """Consumer groups. `listed`: the number of groups that ListGroups lists; None if a request failed, for the reason
    `why`. `denied`: the listed groups on which DESCRIBE is denied. `any_denied`: True if Kafka denies access even to an
    invented group; None if not known.

    `share_not_judged`: listed share groups (KIP-932) for which it is not known whether they wait; `share_why`: the
    reason.
    """

    listed: int | None
    denied: tuple[str, ...]
    any_denied: bool | None
    why: str | None
    share_not_judged: tuple[str, ...] = ()
    share_why: Reason | None = None


class ClockReport(NamedTuple):
    """A clock of the cluster. `ahead_ms`: the time by which it is ahead of this machine's clock (below 0: behind), with
    an error of at most `within_ms`. `read_from`: the source of the reading, as text for people."""

    owner: str
    ahead_ms: int
    within_ms: int
    read_from: str


class ClusterReport(NamedTuple):
    """Everything that the examination found. `cluster_operations`: the operations that the principal may perform on the
    cluster, in Kafka's words; None if Kafka does not report them, for example without DESCRIBE on the cluster.
    `has_authorizer`: None if not known. `reports_operations`: True if the brokers support DescribeCluster."""

    bootstrap: str
    principal: str | None
    cluster_id: str | None
    brokers: tuple[BrokerReport, ...]
    features: Mapping[str, int]
    assumed_configs: tuple[str, ...]
    cluster_operations: frozenset[str] | None
    log: LogReport
    ids: IdsReport
    topics: TopicsReport
    groups: GroupsReport
    clocks: tuple[ClockReport, ...]
    newest_record_ms: int | None
    has_authorizer: bool | None
    reports_operations: bool = True
