"""The context in which rules judge facts: the known part of the transaction log, and the operators' `[[rules]]`."""

from __future__ import annotations

from typing import NamedTuple

from service.domain.findings.finding import Observation
from service.domain.findings.rules import Rule, Rules
from service.domain.partitions.blocked_groups import NO_GROUPS, BlockedGroupIndex
from service.domain.transaction_log.known_log import KnownLog


class Context(NamedTuple):
    """Everything that rules depend on besides the facts.

    - `groups`: the consumer groups that wait for open transactions.
    - `has_undecodable`: the newest record of some id cannot be decoded.
    - `may_skip_markers`: from `service.domain.releases`, for the brokers of the cluster.
    - `uncoordinated`: Ongoing transactions, as (id, producer id), that no coordinator knows: their records were left
      behind when partitions were added to the log, and all coordinators were asked after the abort was due.
    - `transaction_version`: the finalized level of the feature; 0 if none is finalized, None if it is not known.
    """

    log: KnownLog
    rules: Rules
    groups: BlockedGroupIndex = NO_GROUPS
    has_undecodable: bool = False
    may_skip_markers: bool | None = None
    uncoordinated: frozenset[tuple[bytes, int]] = frozenset()
    transaction_version: int | None = None


def with_rule(observation: Observation, rule: Rule) -> Observation:
    """Returns the observation with the owner and the mute time of the rule."""
    return observation._replace(owner=rule.owner, muted_until_ms=rule.mute_until_ms)
