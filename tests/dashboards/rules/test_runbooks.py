"""Tests that each alert has a runbook of the same form, and that the commands in the runbook exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from service.cli.parser import COMMANDS, parse
from tests.dashboards.rules.files import ALERTS, NAMES, RUNBOOKS
from tests.helpers.stores import client_of

SECTIONS = ["Symptom", "What it means", "How to confirm", "What to do", "When it heals by itself"]
PAGES = sorted(path for path in RUNBOOKS.glob("*.md") if path.name != "README.md")
KAFKAS = {
    "kafka-transactions.sh",
    "kafka-topics.sh",
    "kafka-consumer-groups.sh",
    "kafka-acls.sh",
    "kafka-console-consumer.sh",
}
COMMAND = re.compile(r"^ {4,}((?:txnscope|kafka-\w[\w-]*\.sh|curl) .*)$|`((?:txnscope|kafka-[\w-]+\.sh) [^`]*)`", re.M)


def commands(path: Path) -> list[list[str]]:
    return [shlex.split(block or inline) for block, inline in COMMAND.findall(path.read_text("utf-8"))]


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert [path.stem for path in PAGES] == NAMES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_answers_the_five_questions(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith(f"# {path.stem}\n")
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    assert all(part.strip() for part in re.split(r"^## .*$", text, flags=re.M))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_begins_with_the_severity_of_its_alert(path: Path) -> None:
    first = path.read_text("utf-8").splitlines()[2].lower()
    for alert in ALERTS:
        if alert["alert"] == path.stem:
            assert alert["labels"]["severity"] in first


def test_the_index_lists_every_alert_with_its_severities() -> None:
    listed = re.findall(
        r"^\| \[(\w+)\]\((\w+)\.md\) \| ([\w, ]+) \|", (RUNBOOKS / "README.md").read_text("utf-8"), re.M
    )
    assert sorted(name for name, _, _ in listed) == NAMES
    for name, link, severities in listed:
        assert name == link
        assert set(severities.split(", ")) == {a["labels"]["severity"] for a in ALERTS if a["alert"] == name}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_of_runbooks_exist_with_their_flags(path: Path) -> None:
    for program, *arguments in commands(path):
        if program == "txnscope" and len(arguments) == 1 and arguments[0] != "migrate":
            assert arguments[0] in {command.name for command in COMMANDS}, (
                "a sentence names a command that does not exist"
            )
        elif program == "txnscope":
            parse(arguments)
        elif program != "curl":
            assert program in KAFKAS
            assert arguments[0] == "--bootstrap-server" or len(arguments) <= 3, arguments


def test_addresses_in_curl_commands_exist(tmp_path: Path) -> None:
    with client_of(f"sqlite:///{tmp_path / 'store.db'}") as client:
        paths = client.get("/openapi.json").json()["paths"].keys() | {"/metrics"}
    patterns = [re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in paths]
    asked = {(path.name, word) for path in PAGES for c in commands(path) if c[0] == "curl" for word in c if "/" in word}
    assert len(asked) > 10
    for page, url in asked:
        place = url.removeprefix("localhost:8080").partition("?")[0]
        assert any(pattern.fullmatch(place) for pattern in patterns), f"{page}: {url}"


def test_links_between_pages_lead_to_existing_files() -> None:
    for path in (*PAGES, RUNBOOKS / "README.md"):
        for target in re.findall(r"\]\(([^)#:]+\.(?:md|yml))", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name} has a hyperlink to {target}, which does not exist"
