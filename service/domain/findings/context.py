"""What the rules rest on besides the facts: limits of the brokers, how far the log was read, people's own rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.findings.finding import Observation
from service.domain.findings.rules import Rule, Rules
from service.domain.partitions.blocked_groups import NOBODY, GroupsBehind
from service.domain.transaction_log.limits import CONFIG_DEFAULTS, EXPIRATION_CONFIG

SCAN_CONFIG: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
SWEEP_CONFIG: Final = "transaction.remove.expired.transaction.cleanup.interval.ms"

VIEW_LASTS_MS: Final = 10_000
"""How long the end of the log, once asked for and read to, says what there is."""

AHEAD_MS: Final = 1_000
"""A view may be written while the round that reads it has begun. One further ahead is from before the clock was set
back: how old it is cannot be told."""


class Limits(NamedTuple):
    """The brokers' own configs, in ms; `assumed` names those that are Kafka's defaults because nobody told."""

    scan_ms: int
    expiration_ms: int
    sweep_ms: int
    assumed: frozenset[str]


def limits_of(configs: Mapping[str, Mapping[str, str]]) -> Limits:
    """`{name: {"value", "source"}}`, as a cluster describes itself."""
    told = {name: config["value"] for name, config in configs.items() if config["source"] == "broker"}
    values = CONFIG_DEFAULTS | told
    return Limits(
        int(values[SCAN_CONFIG]),
        int(values[EXPIRATION_CONFIG]),
        int(values[SWEEP_CONFIG]),
        frozenset(CONFIG_DEFAULTS) - told.keys(),
    )


class View(NamedTuple):
    """A partition of the coordinators' log: read up to `next_offset`; its end as ListOffsets told it then."""

    partition: int
    leader: int
    next_offset: int
    end_offset: int
    end_asked_at_ms: int


AWAY_MS: Final = 30_000
"""A partition that has not answered for so long while others did is not waited for: its coordinator is down, or hidden
from us."""


class Context(NamedTuple):
    """`seen_until`: by log partition, up to when it is known what was written. Partitions that cannot be judged now
    (not read to their end, or asked too long ago) are not in it. `groups`: the consumer groups behind what is open.
    `settled_ms`: the time up to which all partitions have been read, however long ago that was; None while one is not
    read to its end. `has_undecodable`: the newest record of some id cannot be decoded. `may_skip_markers`: as
    `service.domain.releases` tells of the brokers."""

    limits: Limits
    rules: Rules
    seen_until: Mapping[int, int]
    leaders: Mapping[int, int]
    whole: bool
    groups: GroupsBehind = NOBODY
    settled_ms: int | None = None
    has_undecodable: bool = False
    may_skip_markers: bool | None = None

    def assumed(self, config: str) -> str:
        """What to add to a sentence that rests on the config."""
        return f" (assumed: the brokers' {config} could not be read)" if config in self.limits.assumed else ""


def context_of(limits: Limits, rules: Rules, views: Iterable[View], now_ms: int) -> Context:
    """`whole`: all partitions can be judged, and there are some."""
    views = list(views)
    fresh = {v.partition: v.end_asked_at_ms for v in views if _is_fresh(v, now_ms)}
    leaders = {v.partition: v.leader for v in views}
    whole = bool(views) and len(fresh) == len(views)
    return Context(limits, rules, fresh, leaders, whole, settled_ms=_settled_ms(views, now_ms))


def _settled_ms(views: Iterable[View], now_ms: int) -> int | None:
    newest_ms = max((v.end_asked_at_ms for v in views), default=0)
    answering = [v for v in views if newest_ms - v.end_asked_at_ms <= AWAY_MS]
    is_known = all(v.next_offset >= v.end_offset and v.end_asked_at_ms - now_ms <= AHEAD_MS for v in answering)
    return min(v.end_asked_at_ms for v in answering) if answering and is_known else None


def _is_fresh(view: View, now_ms: int) -> bool:
    return view.next_offset >= view.end_offset and -AHEAD_MS <= now_ms - view.end_asked_at_ms <= VIEW_LASTS_MS


def ruled(observation: Observation, rule: Rule) -> Observation:
    """With the owner and the silence that the rule gives it."""
    return observation._replace(owner=rule.owner, muted_until_ms=rule.mute_until_ms)
