"""The rules of the settings (`[[rules]]`). For some ids or topics, a rule sets the time after which a transaction
counts as long-running, the owner, and the end of a mute. With `full_history`, every transition of ids with the rule's
prefix is kept, even ordinary commits."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """A rule for ids whose displayed text begins with `prefix`, or for transactions with a topic that matches the glob
    `topic`."""

    prefix: str | None = None
    topic: str | None = None
    long_after_ms: int | None = None
    owner: str | None = None
    mute_until_ms: int | None = None
    full_history: bool = False


NO_RULE: Final = Rule()


class Rules(NamedTuple):
    """The rules of the settings, in the order of the file."""

    rules: tuple[Rule, ...] = ()

    def of(self, name: str, topics: Iterable[str] = ()) -> Rule:
        """Returns the rule of an id, or of ids that begin with `name`; NO_RULE if no rule fits. If several rules fit,
        the one with the longest prefix or topic pattern counts; of equally long ones, the first in the file."""
        topics = set(topics)
        fitting = [rule for rule in self.rules if _fits(rule, name, topics)]
        return max(fitting, key=lambda rule: len(rule.prefix or rule.topic or ""), default=NO_RULE)

    @property
    def kept_prefixes(self) -> tuple[str, ...]:
        """Returns the prefixes of the ids for which every transition is kept."""
        return tuple(rule.prefix for rule in self.rules if rule.full_history and rule.prefix is not None)

    @property
    def shortest_long_ms(self) -> int | None:
        return min((rule.long_after_ms for rule in self.rules if rule.long_after_ms is not None), default=None)


def _fits(rule: Rule, name: str, topics: set[str]) -> bool:
    if rule.prefix is not None:
        return name.startswith(rule.prefix)
    return any(fnmatchcase(topic, rule.topic or "") for topic in topics)
