"""`txnscope transactions`: a table of transactional.ids."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from service.cli.rest import Service
from service.cli.text import age, name_of, print_page
from service.settings import Settings

_FILTERS = ("state", "prefix", "min_age", "producer_id", "topic", "q", "sort")
_HEADS = (
    "TRANSACTIONAL.ID",
    "STATE",
    "OPEN FOR",
    "PRODUCER ID",
    "EPOCH",
    "LAST UPDATE",
    "COMMITS",
    "ABORTS",
    "PARTITIONS",
)
_PARTITIONS_SHOWN = 3


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the table. CommandFailed: 3 if the service does not answer, 2 if it refuses a filter or knows no id with
    the producer id.
    """
    query = {name: getattr(flags, name) for name in _FILTERS}
    service = Service(settings)
    page = service.transactions(query, flags.limit)
    if not page["items"] and flags.producer_id is not None:
        service.owners(flags.producer_id)
    return print_page(page, flags.json, _HEADS, lambda one: _row(one, page["as_of"]))


def _row(one: dict[str, Any], as_of: str | None) -> tuple[object, ...]:
    names = [f"{each['topic']}-{each['partition']}" for each in one["partitions"]]
    rest = f" +{len(names) - _PARTITIONS_SHOWN}" if len(names) > _PARTITIONS_SHOWN else ""
    counts = one["counts"]
    return (
        name_of(one),
        one["state"],
        age(one["started_at"], as_of),
        one["producer_id"],
        one["producer_epoch"],
        one["last_updated_at"],
        counts["commits"],
        sum(counts["aborts"].values()),
        ",".join(names[:_PARTITIONS_SHOWN]) + rest or "-",
    )
