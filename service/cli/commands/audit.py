"""`txnscope audit`: a table of what people and programs did, tried, or were refused."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from service.cli.rest import Service
from service.cli.text import print_page
from service.settings import Settings

_HEADS = ("WHEN", "WHO", "ADDRESS", "ACTION", "OUTCOME", "SUBJECT", "DETAIL")


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the table. CommandFailed: 3 if the service does not answer, 2 if it refuses."""
    query = {name: getattr(flags, name) for name in ("action", "outcome", "who")}
    return print_page(Service(settings).audit(query, flags.limit), flags.json, _HEADS, _row)


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    times = f"{one['outcome']} ({one['count']:,} times)" if one["count"] > 1 else one["outcome"]
    return one["at"], one["who"], one["address"], one["action"], times, one["subject"], one["detail"]
