"""What an examination of a cluster brought to light: values between whoever asks and whoever says what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class BrokerSeen(NamedTuple):
    """`why`: it does not answer at the address that it advertises; `apis` (highest version by API key) is empty then.

    `newest_metadata_version`: the highest level of that feature it could run at; None where it does not tell.
    """

    node: int
    host: str
    port: int
    why: str | None
    apis: Mapping[int, int]
    newest_metadata_version: int | None


class LogSeen(NamedTuple):
    """`__transaction_state`. `is_there` None: it may not be described, so nobody knows. `may_read` None: not known.

    `ids`: those in the part that was read; `is_whole`: that part is all of it.
    """

    is_there: bool | None
    partitions: int
    leaderless: tuple[int, ...]
    may_read: bool | None
    why: str | None
    ids: int
    is_whole: bool


class IdsSeen(NamedTuple):
    """`listed` by ListTransactions; None: not asked for, `why` says why not. `hidden`: in the log, and denied when
    asked for by name. `any_denied`: an id of an invented name is denied; None: not known.
    """

    listed: int | None
    hidden: tuple[str, ...]
    any_denied: bool | None
    why: str | None


class TopicsSeen(NamedTuple):
    """`globs`: those of `--topics`, `*` where there are none. `partitions`: how many, by topic, of all topics that may
    be described. `mirrored` and `left_out` (`--topics`) are not watched. `absent`: names in `--topics` that no topic
    has.

    `unseen`: topics to be watched that may not be described, known from `--topics` or the coordinators' log;
    `beyond`: those of `globs` under which a topic of an invented name is denied: there may be more.

    Of the watched topics: `readable` and `unreadable` by DescribeProducers, `silent` could not be asked.
    """

    globs: tuple[str, ...]
    partitions: Mapping[str, int]
    mirrored: tuple[str, ...]
    left_out: tuple[str, ...]
    absent: tuple[str, ...]
    unseen: tuple[str, ...]
    beyond: tuple[str, ...]
    readable: tuple[str, ...]
    unreadable: tuple[str, ...]
    silent: tuple[str, ...]
    leaderless: tuple[tuple[str, int], ...]
    why_silent: str | None

    @property
    def watched(self) -> tuple[str, ...]:
        aside = {*self.mirrored, *self.left_out}
        return tuple(topic for topic in self.partitions if topic not in aside)


class GroupsSeen(NamedTuple):
    """`listed` by ListGroups (None: nobody answered), `denied` of them. `any_denied`: one of an invented name is."""

    listed: int | None
    denied: tuple[str, ...]
    any_denied: bool | None
    why: str | None


class ClockSeen(NamedTuple):
    """`ahead_ms`: of this machine's clock, give or take `within_ms`. `how`: what it was read from, for people."""

    whose: str
    ahead_ms: int
    within_ms: int
    how: str


class Seen(NamedTuple):
    """`cluster_operations`: what the principal may do with the cluster, in Kafka's words; None: it may not know
    (no DESCRIBE on it). `denials`: rules that deny something to anybody; None: they may not be listed.
    """

    bootstrap: str
    principal: str | None
    cluster_id: str | None
    brokers: tuple[BrokerSeen, ...]
    features: Mapping[str, int]
    assumed_configs: tuple[str, ...]
    cluster_operations: frozenset[str] | None
    log: LogSeen
    ids: IdsSeen
    topics: TopicsSeen
    groups: GroupsSeen
    clocks: tuple[ClockSeen, ...]
    newest_record_ms: int | None
    has_authorizer: bool | None
