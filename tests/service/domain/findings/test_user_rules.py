"""Tests of `[[rules]]`: the rule with the longest matching pattern applies."""

from __future__ import annotations

import pytest

from service.domain.findings.rules import NO_RULE, Rule, Rules

PAY, PAY_EU, ORDERS = Rule(prefix="pay", owner="a"), Rule(prefix="pay-eu-", owner="b"), Rule(topic="orders*", owner="c")


@pytest.mark.parametrize(
    ("name", "topics", "rule"),
    [
        ("pay-us-1", (), PAY),
        ("pay-eu-1", (), PAY_EU),
        ("pay-us-1", ("orders-eu",), ORDERS),
        ("pay-eu-1", ("orders-eu",), PAY_EU),  # equally long, and earlier in the file
        ("other", ("orders",), ORDERS),
        ("other", ("reorders",), NO_RULE),
        ("", (), NO_RULE),
    ],
)
def test_the_longest_rule_wins(name: str, topics: tuple[str, ...], rule: Rule) -> None:
    assert Rules((PAY, PAY_EU, ORDERS)).of(name, topics) == rule


def test_all_rules_give_the_shortest_limit_and_the_kept_prefixes() -> None:
    rules = Rules((Rule("pay", long_after_ms=90_000), Rule("x", full_history=True), Rule("y", long_after_ms=100_000)))
    assert rules.shortest_long_ms == 90_000
    assert rules.kept_prefixes == ("x",)
    assert Rules().shortest_long_ms is None
