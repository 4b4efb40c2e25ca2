"""The dashboards as files that Grafana imports."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dashboards import overview, partitions, pipeline, producers, transactional_id
from dashboards.frame import Board, model
from dashboards.sdk import JSONEncoder

BOARDS: Final[tuple[Board, ...]] = (
    overview.BOARD,
    partitions.BOARD,
    transactional_id.BOARD,
    producers.BOARD,
    pipeline.BOARD,
)
FOLDER: Final = Path(__file__).parent / "grafana"


def text(board: Board, site_url: str) -> str:
    """Returns the content of the dashboard's file."""
    return JSONEncoder(indent=2, sort_keys=True, ensure_ascii=False).encode(model(board, site_url)) + "\n"


def stale(folder: Path, site_url: str) -> list[str]:
    """Returns a line for each file that is missing, belongs to no dashboard, or differs from what would be written
    now."""
    expected = {board.file: text(board, site_url) for board in BOARDS}
    found = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.json")}
    return [
        *(f"{folder / name}: missing" for name in expected.keys() - found.keys()),
        *(f"{folder / name}: belongs to no dashboard" for name in found.keys() - expected.keys()),
        *(
            f"{folder / name}: not up to date"
            for name in expected.keys() & found.keys()
            if expected[name] != found[name]
        ),
    ]
