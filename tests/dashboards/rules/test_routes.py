"""Tests the example configuration for Alertmanager: which alerts page, and which alerts mute others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.dashboards.rules.files import ALERTMANAGER, ALERTS, accepts, load, run

RECEIVERS = {"critical": "page", "warning": "ticket", "info": "nobody", "none": "heartbeat"}
CONFIG: dict[str, Any] = load(ALERTMANAGER)
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
HANGS = {"topic": "orders", "partition": "0", "finding": "f"}


def labels_of(alert: dict[str, Any], **more: str) -> dict[str, str]:
    return {"alertname": alert["alert"], "cluster": "c1", **alert["labels"], **more}


def named(name: str, severity: str | None = None, **more: str) -> dict[str, str]:
    one = next(a for a in ALERTS if a["alert"] == name and severity in (None, a["labels"]["severity"]))
    return labels_of(one, **more)


def matches(labels: Mapping[str, str], matcher: str) -> bool:
    found = MATCHER.fullmatch(matcher)
    assert found is not None, matcher
    name, how, value = found.groups()
    is_same = bool(re.fullmatch(value if "~" in how else re.escape(value), labels.get(name, "")))
    return is_same is not how.startswith("!")


def mutes(source: Mapping[str, str], target: Mapping[str, str]) -> bool:
    """Returns whether `source`, while it fires, mutes `target`. Like Alertmanager, treats a label that both alerts lack
    as equal."""
    return any(
        all(matches(source, source_matcher) for source_matcher in rule["source_matchers"])
        and all(matches(target, target_matcher) for target_matcher in rule["target_matchers"])
        and all(source.get(label, "") == target.get(label, "") for label in rule.get("equal", ()))
        for rule in CONFIG["inhibit_rules"]
    )


def test_the_example_is_well_formed() -> None:
    accepts("amtool", "check-config", ALERTMANAGER)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda one: f"{one['alert']}-{one['labels']['severity']}")
def test_an_alert_goes_where_its_severity_says(alert: dict[str, Any]) -> None:
    given = [f"{name}={value}" for name, value in labels_of(alert).items()]
    done = run("amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}", *given)
    assert done.stdout.strip() == RECEIVERS[alert["labels"]["severity"]], done.stderr


def test_no_alert_mutes_a_hanging_transaction() -> None:
    hanging = [labels_of(a, **HANGS) for a in ALERTS if a["alert"] == "KafkaTransactionHanging"]
    assert hanging
    for source in ("partitions", "transaction_state"):
        for alert in ALERTS:
            assert not any(mutes(labels_of(alert, source=source), target) for target in hanging), alert["alert"]


def test_stale_data_mute_only_alerts_of_the_same_source() -> None:
    stale = named("KafkaTxnPipelineStale", source="partitions")
    stuck = named("KafkaLastStableOffsetStuck", topic="t", partition="1")
    assert mutes(stale, stuck)
    assert mutes(stale, named("KafkaTxnCoverageLow", source="partitions"))
    assert not mutes(stale, stuck | {"cluster": "other"})
    assert not mutes(stale, named("KafkaTransactionPrepareStuck")), (
        "this alert depends on the transaction log, and not on the stale source"
    )
    assert not mutes(stale, stale)
    assert not mutes(stale, named("KafkaTxnStoreDown"))
    rests = [labels_of(a) for a in ALERTS if "source" in a["labels"]]
    assert len(rests) > 10
    for target in rests:
        assert mutes(named("KafkaTxnPipelineStale", source=target["source"]), target), target["alertname"]


def test_a_page_mutes_the_ticket_of_the_same_alert() -> None:
    page, ticket = named("KafkaTransactionOverdue", "critical"), named("KafkaTransactionOverdue", "warning")
    assert mutes(page, ticket)
    assert not mutes(ticket, page)
    assert not mutes(page, ticket | {"cluster": "other"})
    assert not mutes(page, named("KafkaTransactionAbortRatioHigh", "warning"))


def test_a_hanging_transaction_mutes_alerts_about_its_effects() -> None:
    hangs = named("KafkaTransactionHanging", **HANGS)
    stuck = named("KafkaLastStableOffsetStuck", topic="orders", partition="0")
    assert mutes(hangs, stuck)
    assert not mutes(hangs, stuck | {"partition": "1"})
    assert mutes(hangs, named("KafkaConsumerGroupBlocked", group="g", topic="orders"))
    assert not mutes(hangs, named("KafkaConsumerGroupBlocked", group="g", topic="payments"))
