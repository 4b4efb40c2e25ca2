"""Tests that each panel of a dashboard is drawn at the place that the dashboard gives it. The answers of Prometheus are
made up."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.dashboards.boards import FILES, Json, load
from tests.dashboards.pictures.answers import STEP_S, Span, drawing
from tests.dashboards.pictures.draw import PICTURES, draw
from tests.helpers.paths import ROOT

SPAN: Final = Span(0, 600)
NUMBERS: Final = {"le": ("0.1", "1", "+Inf"), "partition": ("0", "1")}


def answer(path: str, parameters: Mapping[str, str]) -> Any:
    """Returns a made-up answer of Prometheus. A request for the values of a label gets one value. A query gets two
    series with the labels of its first `by` clause (without a `by` clause: `job` and `instance`), or three series if it
    groups by `le` only."""
    if path.startswith("label/"):
        return ["one"]
    grouped = re.search(r"by \(([^)]*)\)", parameters["query"])
    labels = grouped[1].split(", ") if grouped else ["job", "instance"]
    found = []
    for number in range(3 if labels == ["le"] else 2):
        metric = {label: NUMBERS.get(label, ("a", "b"))[number] for label in labels}
        values = [[at, str((number + 1) * (1 + at % 7))] for at in range(0, 601, STEP_S)]
        found.append({"metric": metric} | ({"value": values[-1]} if path == "query" else {"values": values}))
    return {"result": found}


def nothing(path: str, parameters: Mapping[str, str]) -> Any:
    return [] if path.startswith("label/") else {"result": []}


@pytest.mark.parametrize("file", FILES)
def test_every_panel_shows_what_its_queries_answer(file: str) -> None:
    board = load(file)
    for panel, drawn in zip(board["panels"], drawing(board, answer, {}, SPAN)["panels"], strict=True):
        assert (drawn["title"], drawn["at"]) == (panel["title"], panel["gridPos"])
        if panel["type"] == "row":
            continue
        assert drawn["shown"], panel["title"]
        if panel["type"] == "table":
            assert {len(row) for row in drawn["shown"]} == {len(drawn["columns"])}
            assert all(value for row in drawn["shown"] for value in row), panel["title"]
        elif panel["type"] != "heatmap":
            assert len(drawn["shown"]) == 2 * len(panel["targets"]), panel["title"]
            assert all(one["name"] for one in drawn["shown"]), panel["title"]


def test_a_heatmap_shows_single_buckets_instead_of_cumulative_ones() -> None:
    (density, *_) = (
        panel for panel in drawing(load("overview.json"), answer, {}, SPAN)["panels"] if panel["type"] == "heatmap"
    )
    assert [(one["name"], one["points"][1]) for one in density["shown"]] == [
        ("0.1", [STEP_S, 2.0]),
        ("1", [STEP_S, 2.0]),
        ("+Inf", [STEP_S, 2.0]),
    ]


def test_every_board_has_a_small_picture_to_which_its_page_links() -> None:
    page = (ROOT / "docs" / "dashboards.md").read_text("utf-8")
    names = [Path(file).with_suffix(".png").name for file in FILES]
    assert sorted(path.name for path in PICTURES.iterdir()) == sorted(names)
    for name in names:
        assert f"(boards/{name})" in page
        assert (PICTURES / name).stat().st_size < 150_000, name


def test_boards_are_drawn_with_data_and_without(tmp_path: Path) -> None:
    boards: dict[str, Json] = {file: drawing(load(file), answer, {}, SPAN) for file in FILES}
    boards |= {f"empty-{file}": drawing(load(file), nothing, {}, SPAN) for file in FILES[:1]}
    drawn = list(draw(json.loads(json.dumps(boards)), tmp_path))
    assert [path.name for path in drawn] == [file.replace(".json", ".png") for file in boards]
    for path in drawn:
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        assert (width, height > 800) == (1200, True)
    assert drawn[0].read_bytes() != drawn[-1].read_bytes()
