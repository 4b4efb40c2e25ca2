"""Tests that the code still has every name that docs/stability.md promises to keep (docs/stable-names.json)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers import stable_names
from tests.helpers.paths import ROOT
from tests.helpers.stable_names import DOCUMENT, Sections, broken, document, listed, made
from tests.helpers.stable_names.__main__ import main

PROMISED = {"metrics": ["up gauge", "up{cluster}"], "commands": ["watch"], "MCP": ["tool", "tool needs cluster"]}


@pytest.fixture(scope="module")
def present() -> Sections:
    return made()


def test_no_promised_name_is_gone(present: Sections) -> None:
    assert broken(listed(), present) == [], "docs/stability.md says how a name is deprecated"


def test_the_list_has_names_of_every_interface(present: Sections) -> None:
    assert present.keys() == listed().keys()
    assert [title for title, names in present.items() if not names] == []
    for title, name in {
        "flags and arguments": "hanging --allow-partial",
        "exit codes": "4 partial",
        "configuration keys": "auth.oidc.issuer",
        "variables": "TXNSCOPE_STORE",
        "REST parameters": "GET /api/v1/clusters/{cluster}/findings query kind = hanging_transaction",
        "REST fields": "Finding.severity = critical",
        "metrics": "kafka_txn_transactions{state}",
        "alerts": "KafkaTransactionHanging severity=critical",
        "webhook": "header webhook-signature",
        "CloudEvent": "type = io.txnscope.finding.resolved",
        "Alertmanager": "label finding",
        "MCP": "txnscope://runbooks/KafkaTransactionHanging",
        "revisions of the store": "r0001",
    }.items():
        assert name in present[title], title


def test_the_page_of_promises_names_every_section() -> None:
    page = (ROOT / "docs" / "stability.md").read_text("utf-8")
    assert [title for title in listed() if f"`{title}`" not in page] == []


@pytest.mark.parametrize(
    ("title", "names", "complaint"),
    [
        ("metrics", ["up gauge", "up{kafka_cluster}"], "metrics: 'up{cluster}' is gone"),
        ("metrics", ["up counter", "up{cluster}"], "metrics: 'up gauge' is gone"),
        ("commands", [], "commands: 'watch' is gone"),
        ("MCP", ["tool", "tool needs cluster", "tool needs group"], "MCP: 'tool needs group' is a new requirement"),
    ],
)
def test_a_change_that_breaks_somebody_is_reported(title: str, names: list[str], complaint: str) -> None:
    assert broken(PROMISED, PROMISED | {title: names}) == [complaint]


def test_an_addition_breaks_nothing() -> None:
    more = PROMISED | {"metrics": [*PROMISED["metrics"], "down gauge"], "new": ["a", "a needs b"]}
    assert broken(PROMISED, more) == []


def test_a_need_that_ends_breaks_nothing() -> None:
    assert broken(PROMISED, PROMISED | {"MCP": ["tool"]}) == []


def test_a_name_leaves_the_list_only_on_purpose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a rename, the program that renews the list fails, and names the lost name. With `--remove`, the program
    removes the name from the list."""
    file = tmp_path / "stable-names.json"
    file.write_text(document({"metrics": ["old gauge"]}))
    for module in ("tests.helpers.stable_names", "tests.helpers.stable_names.__main__"):
        monkeypatch.setattr(f"{module}.DOCUMENT", file)
        monkeypatch.setattr(f"{module}.made", lambda: {"metrics": ["new gauge"]})
    monkeypatch.setattr("sys.argv", ["stable_names"])
    assert main() == 1
    assert "metrics: 'old gauge' is gone" in capsys.readouterr().err
    assert stable_names.listed() == {"metrics": ["old gauge"]}
    monkeypatch.setattr("sys.argv", ["stable_names", "--remove"])
    assert main() == 0
    assert json.loads(file.read_text()) == {"metrics": ["new gauge"]}


def test_the_list_has_a_name_in_each_line() -> None:
    assert DOCUMENT.read_text("utf-8") == document(listed())
