"""`[[rules]]`: settings that people make for some ids or topics: the time after which a transaction counts as long, the
owner, the end of a mute. `full_history`: every transition of ids with that prefix is kept, ordinary commits too."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from service.domain.duration_text import span_ms

_KEYS: Final = ("prefix", "topic", "long_after", "owner", "mute_until", "full_history")


class Rule(NamedTuple):
    """A rule for ids that begin with `prefix` (as people see them), or for transactions with a topic that matches the
    glob `topic`."""

    prefix: str | None = None
    topic: str | None = None
    long_after_ms: int | None = None
    owner: str | None = None
    mute_until_ms: int | None = None
    full_history: bool = False

    @property
    def length(self) -> int:
        return len(self.prefix or self.topic or "")


NO_RULE: Final = Rule()


class Rules(NamedTuple):
    """All rules, in the order of the file."""

    rules: tuple[Rule, ...] = ()

    def of(self, name: str, topics: Iterable[str] = ()) -> Rule:
        """Returns the rule of an id, or of ids that begin with `name`: the fitting one with the longest prefix or topic
        pattern; of equally long ones the first in the file."""
        topics = set(topics)
        fitting = [rule for rule in self.rules if _fits(rule, name, topics)]
        return max(fitting, key=lambda rule: rule.length, default=NO_RULE)

    @property
    def kept_prefixes(self) -> tuple[str, ...]:
        """Returns the prefixes of ids of which every transition is kept."""
        return tuple(rule.prefix for rule in self.rules if rule.full_history and rule.prefix is not None)

    @property
    def shortest_long_ms(self) -> int | None:
        return min((rule.long_after_ms for rule in self.rules if rule.long_after_ms is not None), default=None)

    def dump(self) -> str:
        """Returns the rules as JSON, for `load`."""
        return json.dumps([rule._asdict() for rule in self.rules])

    @classmethod
    def load(cls, text: str) -> Rules:
        return cls(tuple(Rule(**rule) for rule in json.loads(text)))


def _fits(rule: Rule, name: str, topics: set[str]) -> bool:
    if rule.prefix is not None:
        return name.startswith(rule.prefix)
    return any(fnmatchcase(topic, rule.topic or "") for topic in topics)


def parse(tables: Sequence[Any]) -> Rules:
    """Reads the `[[rules]]` tables of a TOML file. Raises ValueError with one line that names the rule and the key."""
    return Rules(tuple(_rule(number, table) for number, table in enumerate(tables, 1)))


def _rule(number: int, table: Any) -> Rule:
    where = f"rule {number}"
    if not isinstance(table, Mapping):
        raise ValueError(f"{where}: not a table: write [[rules]]")
    for key in table:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ValueError(f"{where}: unknown key {key!r}{hint}")
    for key in ("prefix", "topic", "owner"):
        if key in table and not (isinstance(table[key], str) and table[key]):
            raise ValueError(f"{where}: {key}: {table[key]!r} is no text")
    if ("prefix" in table) == ("topic" in table):
        raise ValueError(f"{where}: needs either prefix or topic")
    full_history = table.get("full_history", False)
    if not isinstance(full_history, bool):
        raise ValueError(f"{where}: full_history: {full_history!r} is neither true nor false")
    if full_history and "prefix" not in table:
        raise ValueError(f"{where}: full_history needs a prefix: what a transaction writes to is known too late")
    return Rule(
        table.get("prefix"),
        table.get("topic"),
        _duration_ms(where, table.get("long_after")),
        table.get("owner"),
        _time_ms(where, table.get("mute_until")),
        full_history,
    )


def _duration_ms(where: str, value: Any) -> int | None:
    try:
        return None if value is None else span_ms(value)
    except ValueError as error:
        raise ValueError(f"{where}: long_after: {error}") from None


def _time_ms(where: str, value: Any) -> int | None:
    """Returns the time in ms, from a time of TOML or its text; a time without an offset is UTC."""
    if value is None:
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"{where}: mute_until: {value!r} is no time like 2026-03-14T08:00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
