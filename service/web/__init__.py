"""The pages: server-rendered, complete without script, over the same reads as REST."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from service.web import (
    expiring,
    findings,
    goto,
    groups,
    guide,
    landing,
    one_id,
    one_partition,
    overview,
    partitions,
    pipeline,
    transactions,
)

ROOMS: Final = (
    landing,
    goto,
    overview,
    findings,
    partitions,
    one_partition,
    groups,
    expiring,
    pipeline,
    transactions,
    one_id,
    guide,
)
"""Each has a `router`."""

STATIC: Final = Path(__file__).parent / "static"
