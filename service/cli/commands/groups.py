"""`txnscope groups`: a table of the consumer groups behind open transactions."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from service.cli.rest import Service
from service.cli.text import print_page
from service.settings import Settings

_HEADS = ("GROUP", "PARTITION", "RELATION", "COMMITTED", "LSO", "LAG TO LSO", "LAG TO HW", "MEMBERS", "OBSERVED")


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the table. CommandFailed: 3 if the service does not answer."""
    page = Service(settings).groups({"blocked": "true" if flags.blocked else None}, flags.limit)
    return print_page(page, flags.json, _HEADS, _row)


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    where = f" (__consumer_offsets-{one['offsets_partition']})" if one["offsets_partition"] is not None else ""
    is_likely = one["relation"] == "stopped" and one["confidence"] == "likely"
    return (
        one["group"],
        f"{one['topic']}-{one['partition']}",
        one["relation"] + (", likely" if is_likely else "") + where,
        one["committed_offset"],
        one["last_stable_offset"],
        one["lag_to_lso"],
        one["lag_to_hw"],
        one["members"],
        one["observed_at"],
    )
