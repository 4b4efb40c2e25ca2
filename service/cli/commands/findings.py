"""`txnscope findings`: a table of what is wrong or about to be."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from service.cli.rest import Service
from service.cli.text import print_page
from service.domain.findings.formatting import describe_counts
from service.domain.findings.kinds import Status
from service.settings import Settings

_FILTERS = ("kind", "severity", "transactional_id", "topic", "partition")
_HEADS = ("SEVERITY", "STATUS", "KIND", "OPENED", "COUNT", "FINDING", "ID")


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the table. CommandFailed: 3 if the service does not answer, 2 if it refuses a filter."""
    query: dict[str, Any] = {name: getattr(flags, name) for name in _FILTERS}
    if flags.status is not None:
        query["status"] = flags.status
    elif not flags.all:
        query["status"] = [Status.CANDIDATE, Status.CONFIRMED]
    service = Service(settings)
    page = service.findings(query, flags.limit)
    answer = print_page(page, flags.json, _HEADS, _row)
    if page["truncated"]:
        by_kind = {one["kind"]: one["count"] for one in service.summary()["truncated"]}
        if asked := {kind: number for kind, number in by_kind.items() if not flags.kind or kind in flags.kind}:
            print(f"left out, too many at once: {describe_counts(asked)}", file=sys.stderr)
    return answer


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    muted = f" (muted until {one['muted_until']})" if one.get("muted_until") else ""
    owner = f" [{one['owner']}]" if one.get("owner") else ""
    return (
        one["severity"],
        one["status"],
        one["kind"],
        one["opened_at"],
        one["count"],
        one["summary"] + owner + muted,
        one["id"],
    )
