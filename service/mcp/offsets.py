"""Answers what became of the record at an offset: who wrote it, how its transaction ended and why, and whether
`read_committed` consumers get it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from service.domain.partitions.marker_causes import BY_HAND_TEXT
from service.domain.partitions.offset_spans import SpanKind
from service.domain.partitions.own_transactions import decision_text
from service.domain.transaction_log.abort_explanation import why_ended
from service.mcp.asking import Ask, Refused
from service.mcp.data import Fields, known, more, name, quoted
from service.mcp.findings import open_findings, shown
from service.views.partitions.explained_span import readers_of

OWNERS: Final = 5
FINDINGS: Final = 2
_OF_SPAN: Final = ("kind", "producer_id", "marker", "marker_offset", "ended_at", "cause", "confidence", "by_hand")
_OF_RUN: Final = ("from", "to", "records", "transactions", "first_readable", "ended_by")
_HELD_UP: Final = frozenset({SpanKind.OPEN, SpanKind.HANGING})

Body = Mapping[str, Any]


async def explain_offset(ask: Ask, cluster: str, topic: str, partition: int, offset: int) -> Fields:
    answer = name("topic", topic) | {"partition": partition, "offset": offset}
    seen = await ask("clusters", cluster, "partitions", topic, str(partition), "offsets", str(offset))
    spans: list[Body] = seen["spans"]
    answer |= {"as_of": seen["as_of"]} | (_span(spans[0]) if spans else {"kind": "unknown"})
    if (run := seen["only_aborted"]) is not None:
        answer["only_aborted"] = _run(run)
    answer |= await _partition(ask, cluster, topic, partition)
    if spans and spans[0]["kind"] in _HELD_UP:
        about = await open_findings(ask, cluster, topic=topic, partition=str(partition))
        answer |= shown(about, FINDINGS)
    return answer


def _span(body: Body) -> Fields:
    found: Fields = known(body, _OF_SPAN) | name("transactional_id", body["transactional_id"])
    if body["producer_epoch"] is not None:
        found["producer_epoch"] = body["producer_epoch"]
    found["readers"] = readers_of(SpanKind(body["kind"]), ends_nothing=body.get("ends_nothing", False))
    decision = body.get("decision")
    if decision is not None:
        ended_by = None if body["marker_offset"] is None else f"{body['marker']} at {body['marker_offset']}"
        found["decision"] = decision_text(
            decision["marker"], decision["confidence"], may_be_other=decision["may_be_other"], ended_by=ended_by
        )
    if body.get("by_hand"):
        found["why"] = BY_HAND_TEXT
    elif body["cause"] is not None and (decision is None or decision["may_be_other"]):
        why = why_ended(body["cause"], body["confidence"])
        found |= {} if why is None else {"why": why}
    return found


def _run(run: Body) -> Fields:
    owners = [
        known(owner, ("producer_id", "transactions")) | name("transactional_id", owner["transactional_id"])
        for owner in run["owners"][:OWNERS]
    ]
    return known(run, _OF_RUN) | {"owners": owners} | more("owners", len(run["owners"]) - OWNERS + run["more_owners"])


async def _partition(ask: Ask, cluster: str, topic: str, partition: int) -> Fields:
    """Returns the LSO, the high watermark, the time since which the LSO is stalled, and the reason why the partition is
    not judged. Returns an empty mapping if REST refuses the request, for example because the partition is not
    watched."""
    try:
        seen = await ask("clusters", cluster, "partitions", topic, str(partition))
    except Refused:
        return {}
    return known(seen, ("last_stable_offset", "high_watermark", "lso_stalled_since")) | quoted(
        why_not_judged=seen["why"]
    )
