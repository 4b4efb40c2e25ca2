"""Tests that the committed rule files equal the output of the Python code in both formats, and that the links in the
rules can be configured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.rules.__main__ import main
from dashboards.rules.build import PROMETHEUS_RULE, RULES, documents, files
from dashboards.rules.rule import Links, pick
from service.metrics import catalogue
from service.web.guide import RUNBOOKS
from tests.dashboards.rules.files import ALERTS, COMMITTED, FOLDER, WRAPPED


def test_the_committed_files_equal_the_generated_ones() -> None:
    assert main(["--check"]) == 0
    for name, text in files(Links()).items():
        assert (FOLDER / name).read_text("utf-8") == text, (
            f"{name} is out of date; to renew it, run `python -m dashboards.rules`"
        )
        assert yaml.safe_load(text) == documents(Links())[name]


def test_a_file_that_differs_or_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    assert main(["--check", "--out", str(tmp_path)]) == 0
    (tmp_path / RULES).write_text("groups: []\n")
    (tmp_path / PROMETHEUS_RULE).unlink()
    assert main(["--check", "--out", str(tmp_path)]) == 1
    output = capsys.readouterr().err
    assert RULES in output
    assert PROMETHEUS_RULE in output


def test_both_rule_files_contain_the_same_rules() -> None:
    assert {"apiVersion": WRAPPED["apiVersion"], "kind": WRAPPED["kind"]} == {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
    }
    assert WRAPPED["metadata"]["name"]
    assert WRAPPED["spec"] == COMMITTED
    known = {"alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"}
    assert {key for group in WRAPPED["spec"]["groups"] for rule in group["rules"] for key in rule} <= known


def test_links_lead_to_the_addresses_of_the_flags(tmp_path: Path) -> None:
    given = ("--page", "https://txn.example/", "--grafana", "https://g.example/x", "--runbooks", "https://r.example")
    assert main([*given, "--out", str(tmp_path)]) == 0
    made = yaml.safe_load((tmp_path / RULES).read_text("utf-8"))
    for before, after in zip(ALERTS, _alerts(made), strict=True):
        links = after.pop("annotations")
        assert links["page_url"].startswith("https://txn.example/")
        assert not links["page_url"].startswith("https://txn.example//")
        assert links["dashboard_url"].startswith("https://g.example/x/d/txnscope-")
        assert links["runbook_url"] == f"https://r.example/{after['alert']}.md"
        assert after == {key: value for key, value in before.items() if key != "annotations"}
    texts = [after["annotations"]["description"] for after in ALERTS]
    assert not any(default in text for text in texts for default in Links() if default)


def test_runbook_links_lead_to_the_service_without_a_flag(tmp_path: Path) -> None:
    assert main(["--page", "https://txn.example/", "--out", str(tmp_path)]) == 0
    for alert in _alerts(yaml.safe_load((tmp_path / RULES).read_text("utf-8"))):
        assert alert["annotations"]["runbook_url"] == f"https://txn.example{RUNBOOKS}/{alert['alert']}.md"


def test_the_page_about_rules_names_the_addresses_to_replace() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    assert f"s|{Links().page}|" in text
    assert f"s|{Links().grafana}|" in text
    assert "--runbooks" in text


def test_a_query_with_an_unknown_label_is_refused() -> None:
    assert pick(catalogue.FINDINGS, kind="x", status=("a", "b")) == 'kafka_txn_findings{kind="x",status=~"a|b"}'
    with pytest.raises(ValueError, match="kafka_txn_hanging_transactions has no label topic"):
        pick(catalogue.HANGING, topic="orders")


def _alerts(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in document["groups"] for rule in group["rules"] if "alert" in rule]
