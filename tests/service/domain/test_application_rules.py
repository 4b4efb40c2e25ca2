"""Tests that rules name the applications of ids, that a rule overrides the recognised application, and that no name is
guessed."""

from __future__ import annotations

import re

import pytest

from service.domain.application_rules import (
    LONGEST_MATCHED,
    LONGEST_NAME,
    UNASSIGNED,
    ApplicationRule,
    ApplicationRules,
    Assigned,
    mistake_in,
)
from service.domain.applications import LEADER, NOTHING, PER_TASK, PER_THREAD, Application, Framework
from service.domain.id_behaviour import POOLING

STREAMS = Application(Framework.KAFKA_STREAMS, "shop", "1", PER_THREAD)


def rule(**fields: object) -> ApplicationRule:
    pattern = fields.pop("pattern", None)
    return ApplicationRule(pattern=None if pattern is None else re.compile(str(pattern)), **fields)  # type: ignore[arg-type]


def test_an_id_that_nothing_recognises_has_no_application() -> None:
    assert ApplicationRules().assign("billing", NOTHING) == UNASSIGNED


def test_a_recognised_framework_names_the_application() -> None:
    assert ApplicationRules().assign("shop-1", STREAMS) == Assigned("shop", Framework.KAFKA_STREAMS)


@pytest.mark.parametrize(
    ("shown", "recognised", "name"),
    [
        # the same connector in another group of workers is another application
        ("east-jdbc-0", Application(Framework.KAFKA_CONNECT, "jdbc", "0", PER_TASK), "east-jdbc"),
        ("connect-cluster-east", Application(Framework.KAFKA_CONNECT, "east", None, LEADER), "east"),
        ("connect-cluster-a-1", Application(Framework.KAFKA_CONNECT), None),
        ("etl-0-3", Application(Framework.FLINK, "etl", "0", POOLING), "etl"),
        ("x" * 300 + "-0-3", Application(Framework.FLINK, "x" * 300, "0", POOLING), None),
        ("..-0-3", Application(Framework.FLINK, "..", "0", POOLING), None),
    ],
)
def test_the_name_is_that_of_the_deployed_unit(shown: str, recognised: Application, name: str | None) -> None:
    assert ApplicationRules().assign(shown, recognised).name == name


def test_a_rule_counts_more_than_recognition() -> None:
    rules = ApplicationRules((rule(prefix="shop-", name="Shop"),))
    assert rules.assign("shop-1", STREAMS) == Assigned("Shop", Framework.KAFKA_STREAMS)
    assert rules.assign("bakery-1", STREAMS) == Assigned("shop", Framework.KAFKA_STREAMS)


def test_the_first_rule_that_fits_counts() -> None:
    rules = ApplicationRules((rule(pattern="pay-[0-9]+", name="pay"), rule(prefix="pay", name="payments")))
    assert [rules.assign(one, NOTHING).name for one in ("pay-1", "pay-x")] == ["pay", "payments"]


def test_a_pattern_has_to_match_the_whole_id() -> None:
    rules = ApplicationRules((rule(pattern="pay-[0-9]+", name="pay"),))
    assert [rules.assign(one, NOTHING).name for one in ("pay-1", "repay-1", "pay-1-a")] == ["pay", None, None]


def test_a_group_of_the_pattern_names_the_application() -> None:
    rules = ApplicationRules((rule(pattern="(?P<name>[a-z]+)(-[0-9]+)?"),))
    assert [rules.assign(one, NOTHING).name for one in ("pay-1", "billing", "A-1")] == ["pay", "billing", None]


def test_an_unusable_name_in_an_id_is_no_name() -> None:
    rules = ApplicationRules((rule(pattern="(?P<name>.*)"),))
    assert [rules.assign(one, NOTHING) for one in ("", ".", "..", "x" * (LONGEST_NAME + 1))] == [UNASSIGNED] * 4
    assert rules.assign("x" * LONGEST_NAME, NOTHING).name == "x" * LONGEST_NAME


def test_no_pattern_is_tried_on_a_very_long_id() -> None:
    rules = ApplicationRules((rule(pattern="x+", name="x"),))
    assert rules.assign("x" * LONGEST_MATCHED, NOTHING).name == "x"
    assert rules.assign("x" * (LONGEST_MATCHED + 1), NOTHING) == UNASSIGNED


def test_a_kind_in_a_rule_replaces_the_recognised_one() -> None:
    rules = ApplicationRules((rule(prefix="shop-", name="Shop", kind=Framework.FLINK),))
    assert rules.assign("shop-1", STREAMS) == Assigned("Shop", Framework.FLINK)
    assert rules.corrected("shop-1", STREAMS) == Application(Framework.FLINK, "Shop")
    assert rules.corrected("bakery-1", STREAMS) == STREAMS


def test_a_rule_without_a_kind_leaves_the_framework_as_it_is() -> None:
    rules = ApplicationRules((rule(prefix="shop-", name="Shop"),))
    assert rules.corrected("shop-1", STREAMS) == STREAMS


@pytest.mark.parametrize(
    ("prefix", "pattern", "name", "text"),
    [
        (None, None, "pay", "needs either prefix or pattern"),
        ("pay", "pay.*", "pay", "needs either prefix or pattern"),
        ("pay", None, None, "needs name"),
        (None, "pay.*", None, "(?P<name>…)"),
        (None, "(?P<name>pay).*", "pay", "leave one out"),
        (None, "pay(", "pay", "'pay(' is no regular expression"),
        ("pay", None, " pay", "' pay' is no name"),
        ("pay", None, "..", "'..' is no name"),
        ("pay", None, "p\ty", "is no name"),
        ("pay", None, "x" * (LONGEST_NAME + 1), "1 to 200 printable characters"),
    ],
)
def test_a_rule_that_is_none_is_explained(prefix: str | None, pattern: str | None, name: str | None, text: str) -> None:
    assert text in (mistake_in(prefix, pattern, name) or "")


def test_rules_that_name_an_application_are_no_mistake() -> None:
    assert mistake_in("pay", None, "Payments / EU") is None
    assert mistake_in(None, "pay-.*", "pay") is None
    assert mistake_in(None, "(?P<name>.+)-[0-9]+", None) is None
