"""Tests that the committed dashboards equal the output of the code, and that Grafana knows all of their fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboards.__main__ import main
from dashboards.build import FOLDER
from dashboards.sdk import JSONEncoder, dashboard, register_default_plugins
from tests.dashboards.boards import FILES, load


def test_the_committed_files_equal_the_generated_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err
    assert sorted(file.name for file in FOLDER.glob("*.json")) == sorted(FILES)


def test_check_names_each_file_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    assert main(["--out", str(tmp_path), "--check"]) == 0
    assert capsys.readouterr().err == ""
    changed, missing = tmp_path / FILES[0], tmp_path / FILES[1]
    changed.write_text(changed.read_text(encoding="utf-8").replace("orange", "pink"), encoding="utf-8")
    missing.unlink()
    (tmp_path / "old.json").write_text("{}", encoding="utf-8")
    assert main(["--out", str(tmp_path), "--check"]) == 1
    output = capsys.readouterr().err.splitlines()
    assert sorted(line.split(":")[0] for line in output) == sorted(map(str, (changed, missing, tmp_path / "old.json")))
    assert all("python -m dashboards" in line for line in output)


def test_the_address_of_the_service_can_be_changed(tmp_path: Path) -> None:
    main(["--out", str(tmp_path), "--page", "https://txnscope.example.org/"])
    for file in FILES:
        variables = json.loads((tmp_path / file).read_text(encoding="utf-8"))["templating"]["list"]
        (site,) = (variable for variable in variables if variable["name"] == "txnscope")
        assert site["query"] == site["current"]["value"] == "https://txnscope.example.org"


@pytest.mark.parametrize("file", FILES)
def test_grafanas_own_types_know_every_field(file: str) -> None:
    """Grafana drops an unknown field of a panel or its plugin."""
    register_default_plugins()
    board = load(file)
    assert json.loads(JSONEncoder().encode(dashboard.Dashboard.from_json(board))) == board


def test_the_documentation_names_every_dashboard_and_variable() -> None:
    page = (FOLDER.parents[1] / "docs" / "dashboards.md").read_text(encoding="utf-8")
    for file in FILES:
        board = load(file)
        assert f"| {board['title']} | `{board['uid']}` |" in page
        assert file in page
        for variable in board["templating"]["list"]:
            assert f"| {variable['label']} |" in page if "label" in variable else f"| `{variable['name']}`" in page
