"""The result of `doctor`'s examination of a cluster. The code that asks Kafka makes it; the code that explains the
answers reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import TransactionsSeen


class BrokerReport(NamedTuple):
    """A broker. `why`: the reason if it does not answer at the address that it advertises; `apis` (highest version by
    API key) is empty then.

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
    """The topic `__transaction_state`. `exists` None: DESCRIBE is denied, so its existence is unknown. `may_read` None:
    not known.

    `ids`: the number of ids in the part that was read; `is_whole`: that part is the whole log. `seen`: the sign that
    transactions are used although the topic does not exist; None without one.
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
    """Transactional ids. `listed`: their number in ListTransactions; None if that failed, `why` gives the reason.
    `hidden`: ids that the log contains, and that Kafka denies in a request by name. `any_denied`: Kafka also denies an
    invented id; None if not known."""

    listed: int | None
    hidden: tuple[str, ...]
    any_denied: bool | None
    why: str | None


class TopicsReport(NamedTuple):
    """Topics. `globs`: the patterns of `--topics`, `*` if there are none. `partitions`: their number by topic, for all
    topics that may be described. `mirrored` and `left_out` (`--topics`) are not watched. `absent`: names in `--topics`
    that no topic has.

    `not_describable`: topics to be watched that may not be described, known from `--topics` or the transaction log;
    `denied_globs`: the patterns for which Kafka denies a topic of an invented name, so that more topics may match.

    Of the watched topics, DescribeProducers is allowed on `readable` and denied on `unreadable`; for `unanswered`,
    neither is known (`unanswered_why`). `with_open`: topics whose asked partition has an open transaction."""

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
    """Consumer groups. `listed`: their number in ListGroups (None: no answer); `denied`: the listed groups that may not
    be described. `any_denied`: Kafka also denies an invented group.

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
    """A clock of the cluster. `ahead_ms`: by how much it is ahead of this machine's, give or take `within_ms`.
    `read_from`: the source of the reading, as text for people."""

    owner: str
    ahead_ms: int
    within_ms: int
    read_from: str


class ClusterReport(NamedTuple):
    """The whole result. `cluster_operations`: what the principal may do with the cluster, in Kafka's words; None if
    Kafka does not report it (no DESCRIBE on the cluster). `has_authorizer`: None if not known. `reports_operations`:
    the brokers speak DescribeCluster.
    """

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
