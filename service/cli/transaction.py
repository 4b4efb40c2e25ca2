"""`txnscope transaction ID`: everything known of one transactional.id."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from service.cli.errors import FINE
from service.cli.rest import Service
from service.cli.text import age, table
from service.settings import Settings

_PLAIN = (
    "timeout_ms",
    "last_updated_at",
    "state_since",
    "times_out_at",
    "expires_at",
    "client_transaction_version",
    "previous_producer_id",
    "last_outcome",
)


def run(flags: Namespace, settings: Settings) -> int:
    """CommandFailed: 3 if the service does not answer, 2 if it does not know the id."""
    one = Service(settings).transaction(flags.id)
    if flags.json:
        print(json.dumps(one, indent=2))
    else:
        # one column without head: names on the left, values on the right
        print(table(("transactional_id", one["transactional_id"]), list(_lines(one))))
    return FINE


def _lines(one: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "state", one["state"]
    yield "producer_id", f"{one['producer_id']} epoch {one['producer_epoch']}"
    if one["started_at"] is not None:
        yield "started_at", f"{one['started_at']} ({age(one['started_at'], one.get('as_of'))} ago)"
    for name in _PLAIN:
        if one[name] is not None:
            yield name, str(one[name])
    names = [f"{each['topic']}-{each['partition']}" for each in one["partitions"]]
    yield "partitions", ", ".join(names) or "none"
    place = one["coordinator"]
    yield "coordinator", f"__transaction_state-{place['partition']}, broker {place['leader']} epoch {place['epoch']}"
    counts = one["counts"]
    aborts = ", ".join(f"{count} {cause}" for cause, count in counts["aborts"].items() if count)
    yield "commits", f"{counts['commits']} since {counts['since']}"
    yield "aborts", f"{sum(counts['aborts'].values())}" + (f" ({aborts})" if aborts else "")
