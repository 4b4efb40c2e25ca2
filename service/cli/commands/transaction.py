"""`txnscope transaction ID`: shows everything that is known of one transactional.id, and its timeline."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from textwrap import fill
from typing import Any

from service.cli.errors import FINE
from service.cli.rest import Service
from service.cli.text import age, duration, name_of, table
from service.domain.transaction_log.abort_explanation import newest_abort
from service.settings import Settings

_HEADS = ("AT", "FROM -> TO", "PRODUCER ID", "OPEN FOR", "MARKERS", "CAUSE", "NOTE")
_WIDTH = 100
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
    """Prints the id and its timeline. Raises CommandFailed: code 3 if the service does not answer; 2 if the service
    does not know the id."""
    service = Service(settings)
    one = service.transaction(flags.id)
    timeline = service.items("transaction/timeline", flags.limit, {"id": flags.id})
    if flags.json:
        told = {"timeline": timeline["items"], "counted_since": timeline.get("counted_since")}
        print(json.dumps(one | told, indent=2))
        return FINE
    # the id takes the place of the heads: names on the left, values on the right
    print(table(("transactional_id", name_of(one) or ""), list(_lines(one))))
    if why := _why(timeline["items"]):
        print(f"\n{why}")
    if timeline["items"]:
        print()
        print(table(_HEADS, [_row(item) for item in timeline["items"]]))
    if _reaches_back(timeline):
        print(f"\nFrom {timeline['counted_since']} on, ordinary commits are counted by minute instead of listed.")
    if timeline["next_cursor"]:
        print(f"only the newest {len(timeline['items'])} rows of its timeline are shown (--limit)", file=sys.stderr)
    return FINE


def _why(items: list[dict[str, Any]]) -> str | None:
    """Returns the explanation of the newest abort, in sentences; None if there is no abort, or no explanation of it."""
    if (found := newest_abort(items)) is None:
        return None
    item, words = found
    head = f"Aborted last at {item['at']}: {item['cause'].replace('_', ' ')} ({item['confidence']})."
    return fill(f"{head} {words}", _WIDTH)


def _reaches_back(timeline: dict[str, Any]) -> bool:
    """Returns whether the id has, or may have had, records before `counted_since`."""
    since, items = timeline.get("counted_since"), timeline["items"]
    if since is None:
        return False
    oldest = items[-1] if items else {"type": "folded"}
    if oldest["type"] == "folded":
        return timeline["next_cursor"] is None
    is_older: bool = oldest["at"] is not None and oldest["at"] < since
    return is_older or (timeline["next_cursor"] is None and oldest["from_state"] is not None)


def _row(item: dict[str, Any]) -> tuple[object, ...]:
    if item["type"] == "folded":
        commits = "1 commit" if item["count"] == 1 else f"{item['count']} commits"
        return item["to_at"], commits, None, None, None, None, f"since {item['from_at']}"
    producer = None if item["producer_id"] is None else f"{item['producer_id']} epoch {item['producer_epoch']}"
    cause = item["cause"] and f"{item['cause'].replace('_', ' ')} ({item['confidence']})"
    return (
        item["at"],
        f"{item['from_state'] or '?'} -> {item['to_state']}",
        producer,
        duration(item["duration_ms"]),
        duration(item["marker_ms"]),
        cause,
        item["note"],
    )


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
