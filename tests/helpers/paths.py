"""Paths of the project, and of the test data with bytes that were captured from brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = ROOT / "tests" / "golden"
