"""`[[rules]]`: the longest that fits wins, and a mistake is named."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from service.domain.findings.rules import NO_RULE, Rule, Rules, parse

PAY, PAY_EU, ORDERS = Rule(prefix="pay", owner="a"), Rule(prefix="pay-eu-", owner="b"), Rule(topic="orders*", owner="c")


@pytest.mark.parametrize(
    ("name", "topics", "rule"),
    [
        ("pay-us-1", (), PAY),
        ("pay-eu-1", (), PAY_EU),
        ("pay-us-1", ("orders-eu",), ORDERS),
        ("pay-eu-1", ("orders-eu",), PAY_EU),  # as long, and first in the file
        ("other", ("orders",), ORDERS),
        ("other", ("reorders",), NO_RULE),
        ("", (), NO_RULE),
    ],
)
def test_the_longest_rule_wins(name: str, topics: tuple[str, ...], rule: Rule) -> None:
    assert Rules((PAY, PAY_EU, ORDERS)).of(name, topics) == rule


def test_rules_are_read_and_travel_as_json() -> None:
    tables = [
        {"prefix": "pay", "long_after": "90s", "owner": "payments"},
        {"topic": "orders*", "mute_until": datetime(2026, 1, 1, tzinfo=UTC)},
        {"prefix": "x", "mute_until": "2026-01-01T00:00:00", "full_history": True},
    ]
    rules = parse(tables)
    assert rules.rules == (
        Rule("pay", None, 90_000, "payments"),
        Rule(topic="orders*", mute_until_ms=1_767_225_600_000),
        Rule("x", mute_until_ms=1_767_225_600_000, full_history=True),
    )
    assert Rules.load(rules.dump()) == rules
    assert rules.shortest_long_ms == 90_000
    assert rules.kept_prefixes == ("x",)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"prefix": "a", "ownr": "x"}, "rule 1: unknown key 'ownr' (did you mean owner?)"),
        ({"owner": "x"}, "rule 1: needs either prefix or topic"),
        ({"prefix": "a", "topic": "b"}, "rule 1: needs either prefix or topic"),
        ({"prefix": ""}, "rule 1: prefix: '' is no text"),
        ({"prefix": "a", "long_after": 5}, "rule 1: long_after: 5 is no duration like 90s, 15m, 24h or 7d"),
        ({"prefix": "a", "mute_until": "soon"}, "rule 1: mute_until: 'soon' is no time like 2026-03-14T08:00:00Z"),
        ({"prefix": "a", "full_history": "yes"}, "rule 1: full_history: 'yes' is neither true nor false"),
        (
            {"topic": "a", "full_history": True},
            "rule 1: full_history needs a prefix: what a transaction writes to is known too late",
        ),
        ("a", "rule 1: not a table: write [[rules]]"),
    ],
)
def test_a_mistake_is_named(table: Any, message: str) -> None:
    with pytest.raises(ValueError, match="rule 1") as raised:
        parse([table])
    assert str(raised.value) == message
