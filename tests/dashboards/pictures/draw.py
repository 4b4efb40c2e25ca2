"""Draws pictures of what the panels of a dashboard show, with uPlot in Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.helpers.paths import ROOT
from tests.service.web.browser import CHROMIUM

PICTURES: Final = ROOT / "docs" / "boards"
_HERE: Final = Path(__file__).parent
_COLOURS: Final = 256
_VENDOR: Final = ROOT / "service" / "web" / "static" / "vendor"


def draw(drawings: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """Draws each board into `folder`, and yields the path of each picture. The keys of `drawings` are the names of the
    boards' files."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for file, drawing in drawings.items():
            page.set_content((_HERE / "board.html").read_text("utf-8"))
            page.add_style_tag(path=_VENDOR / "uPlot.min.css")
            page.add_script_tag(path=_VENDOR / "uPlot.iife.min.js")
            page.evaluate(f"() => {{ window.drawing = {json.dumps(drawing)}; }}")
            page.add_script_tag(path=_HERE / "board.js")
            assert not complaints, complaints
            path = folder / Path(file).with_suffix(".png").name
            # fewer colours: a third of the size, and no difference to the eye
            Image.open(BytesIO(page.screenshot(full_page=True))).quantize(_COLOURS).save(path, optimize=True)
            yield path
        browser.close()
