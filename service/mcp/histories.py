"""Answers what a transactional.id is doing and what became of its transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from service.domain.transaction_log.abort_explanation import newest_abort
from service.mcp.asking import Ask
from service.mcp.data import NAMES as PARTITIONS
from service.mcp.data import Fields, known, more, name
from service.mcp.findings import open_findings, shown

ROWS: Final = 15
"""Maximum number of rows of the timeline that an answer shows: the newest ones."""
FINDINGS: Final = 3
_OF_ID: Final = ("state", "producer_id", "started_at", "last_updated_at", "state_since", "times_out_at", "expires_at")
_MORE_OF_ID: Final = ("timeout_ms", "client_transaction_version", "last_outcome", "as_of")
_OF_STEP: Final = ("at", "from_state", "to_state", "producer_id", "duration_ms", "marker_ms", "cause", "confidence")

Body = Mapping[str, Any]


async def history_of(ask: Ask, cluster: str, transactional_id: str) -> Fields:
    one = await ask("clusters", cluster, "transaction", id=transactional_id)
    timeline = await ask("clusters", cluster, "transaction", "timeline", id=transactional_id, limit=str(ROWS))
    answer: Fields = name("transactional_id", one["transactional_id"]) | known(one, _OF_ID) | known(one, _MORE_OF_ID)
    answer["producer_epoch"] = one["producer_epoch"]
    places = one["partitions"]
    if places:
        first = places[:PARTITIONS]
        answer["open_on"] = [name("topic", each["topic"]) | {"partition": each["partition"]} for each in first]
        answer |= more("open_on", len(places) - PARTITIONS)
    answer["coordinator"] = {key: value for key, value in one["coordinator"].items() if value is not None}
    answer["counts"] = one["counts"]
    answer["timeline"] = [_row(each) for each in timeline["items"]]
    if timeline["next_cursor"] is not None:
        answer["timeline_goes_on"] = f"only the newest {ROWS} rows are shown"
    if (found := newest_abort(timeline["items"])) is not None:
        aborted, why = found
        answer["newest_abort"] = known(aborted, ("at", "cause", "confidence")) | {"why": why}
    return answer | shown(await open_findings(ask, cluster, transactional_id=transactional_id), FINDINGS)


def _row(body: Body) -> Fields:
    if body["type"] == "folded":
        return {"commits": body["count"]} | known(body, ("from_at", "to_at"))
    return known(body, _OF_STEP) | known(body, ("producer_epoch", "note"))
