"""The pages: server-rendered, complete without script, over the same reads as REST."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from service.web import overview

ROOMS: Final = (overview,)
"""Each has a `router`."""

STATIC: Final = Path(__file__).parent / "static"
