"""Reads the committed dashboards as Grafana does."""

from __future__ import annotations

import json
from typing import Any, Final

from dashboards.build import BOARDS, FOLDER

Json = dict[str, Any]

FILES: Final = tuple(board.file for board in BOARDS)


def load(file: str) -> Json:
    found: Json = json.loads((FOLDER / file).read_text(encoding="utf-8"))
    return found


def panels(board: Json) -> list[Json]:
    """Returns the panels that show data. Asserts that no row of the board is folded."""
    assert all(not panel.get("panels") for panel in board["panels"])
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def links(board: Json) -> list[tuple[str, str]]:
    """Returns (place, URL) of every hyperlink, except those that find dashboards by tag."""
    found = [(f"links: {link['title']}", link["url"]) for link in board["links"] if link["type"] == "link"]
    for panel in panels(board):
        config = panel["fieldConfig"]
        own = [*config["defaults"].get("links", []), *panel.get("links", [])]
        for override in config["overrides"]:
            own += [link for one in override["properties"] if one["id"] == "links" for link in one["value"]]
        found += [(panel["title"], link["url"]) for link in own]
    return found
