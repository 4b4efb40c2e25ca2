"""Lists the dashboard queries that have no result in `make demo-full`, with the reasons. The demo makes nearly
everything that the dashboards show. So a panel that is empty in the demo, and not in this list, is broken."""

from __future__ import annotations

import json
from typing import Final

from dashboards.build import BOARDS, FOLDER
from dashboards.frame import PREFIX
from deploy.demo.scenarios import REFUNDS_ID
from tests.dashboards.check_queries import Json, asking, failures_of

GIVEN: Final = {"transactional_id": REFUNDS_ID}
"""Values for the dashboard variables into which a user types."""

_HANGS: Final = "the transaction of the id hangs, so the id's coordinator has no open transaction of it"
_NO_OTLP: Final = "the demo sends nothing to an OpenTelemetry endpoint"
EMPTY_IN_DEMO: Final = {
    "Overview: Canary: transactions run: B": "every partition of the transaction log has a leader",
    "Overview: Canary: failed rounds: A": "transactions can run",
    "Partitions and LSO: Findings left out: A": "there are fewer findings than the bound",
    "One transactional.id: Open for: A": _HANGS,
    "One transactional.id: How long it was open: A": _HANGS,
    "Pipeline: Requests that failed: A": "the service answers",
    "Pipeline: Requests to the OpenTelemetry endpoint: A": _NO_OTLP,
    "Pipeline: What the OpenTelemetry endpoint never gets: A": _NO_OTLP,
}
"""The reasons for empty results. The key is the place of the query: dashboard, panel, letter of the query."""


def boards() -> dict[str, Json]:
    return {board.file: json.loads((FOLDER / board.file).read_text("utf-8")) for board in BOARDS}


def failures_in_demo(url: str) -> list[str]:
    """Returns the lines of `check_queries.failures` for the demo's Prometheus at `url`. A query may have no result only
    if EMPTY_IN_DEMO has the reason."""
    return failures_of(
        [*boards().values()], asking(url), GIVEN, lambda _, where: where.removeprefix(PREFIX) in EMPTY_IN_DEMO
    )
