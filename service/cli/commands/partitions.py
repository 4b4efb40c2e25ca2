"""`txnscope partitions`: a table of data partitions: their LSO, and what blocks it."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from service.cli.rest import Service
from service.cli.text import age, name_of, print_page
from service.settings import Settings

_HEADS = ("PARTITION", "LAG", "LSO", "HIGH WATERMARK", "STALLED FOR", "BLOCKER", "RELATION", "OPEN", "GROUPS", "JUDGED")


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the table. CommandFailed: 3 if the service does not answer, 2 if it refuses a filter."""
    query = {"lagging": "true" if flags.lagging else None, "topic": flags.topic}
    page = Service(settings).partitions(query, flags.limit)
    return print_page(page, flags.json, _HEADS, lambda one: _row(one, page["as_of"]), "nothing has been sampled yet")


def _row(one: dict[str, Any], as_of: str | None) -> tuple[object, ...]:
    # a transaction whose marker is not replicated yet is not the `blocker`, but it holds the LSO all the same
    holding = one["blocker"] or next((each for each in one["open_transactions"] if each["blocking_now"]), None)
    return (
        f"{one['topic']}-{one['partition']}",
        one["lso_lag_records"],
        one["last_stable_offset"],
        one["high_watermark"],
        age(one["lso_stalled_since"], as_of),
        holding and (name_of(holding) or f"producer id {holding['producer_id']}"),
        holding and holding["relation"],
        len(one["open_transactions"]),
        len(one["blocked_groups"]),
        "yes" if one["judged"] else f"no: {one['why']}",
    )
