"""Tests that the mixin renders the committed dashboards and rules. With other settings, the mixin must render what the
generators write for the same options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import build
from dashboards.mixin.__main__ import main
from dashboards.mixin.build import FOLDER, files
from dashboards.rules.build import RULES, documents
from dashboards.rules.rule import Links
from dashboards.rules.scope import Scope, of_job
from tests.dashboards.boards import FILES, load
from tests.dashboards.mixin.rendering import alerts_of, boards, groups
from tests.dashboards.rules.files import COMMITTED


def test_without_settings_the_mixin_equals_the_committed_files() -> None:
    assert groups() == COMMITTED["groups"]
    assert boards() == {file: load(file) for file in FILES}


def test_what_the_mixin_imports_is_as_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err
    assert {file.name for file in FOLDER.iterdir()} == set(files())
    assert main(["--out", str(tmp_path)]) == 0
    (tmp_path / "groups.json").write_text("[]")
    assert main(["--check", "--out", str(tmp_path)]) == 1
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [str(tmp_path / "groups.json")]


@pytest.mark.parametrize(
    "scope",
    [
        Scope(job=r'obs-\d{1,2}|"x"'),
        Scope(by=("env", "job")),
        Scope(matchers=('env=~"prod|test"', 'cluster!="old"', 'a!~"b{1}"'), by=("region",)),
        Scope(matchers=('env="prod"',), labels=(("env", "prod"), ("severity", "none"))),
    ],
)
def test_rules_are_those_that_the_generator_writes_with_such_options(scope: Scope) -> None:
    rendered = groups(
        txnscopeSelector=of_job(scope.job),
        matchers=scope.matchers,
        groupLabels=scope.by,
        alertLabels=dict(scope.labels),
    )
    assert rendered == _plain(documents(Links(), scope)[RULES]["groups"])


@pytest.mark.parametrize("page", ["https://txn.example.org", "https://txnscope.{{ $labels.env }}.example/\"q'\\%s"])
def test_links_are_those_that_the_generators_write_with_such_addresses(page: str) -> None:
    rendered = groups(pageUrl=page, grafanaUrl="https://g.example/x", runbookURLPattern="https://wiki.example/%s.md")
    links = Links(page, "https://g.example/x", "https://wiki.example")
    assert rendered == _plain(documents(links)[RULES]["groups"])
    assert boards(pageUrl=page) == {board.file: json.loads(build.text(board, page)) for board in build.BOARDS}


def test_runbooks_are_shown_by_the_service_at_the_given_address() -> None:
    for alert in alerts_of(groups(pageUrl="https://txn.example")):
        assert alert["annotations"]["runbook_url"] == f"https://txn.example/guide/runbooks/{alert['alert']}.md"


def _plain(groups: Any) -> Any:
    """Returns the groups as they would be after they were written to a YAML file and read back."""
    return yaml.safe_load(yaml.safe_dump(json.loads(json.dumps(groups))))
