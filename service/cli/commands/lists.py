"""The commands that print a table of what the service lists: transactions, partitions, findings, expiring, groups,
audit. Each ends with CommandFailed: 3 if the service does not answer, 2 if it refuses a filter."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from service.cli.rest import Service
from service.cli.text import age, name_of, print_page
from service.domain.findings.formatting import describe_counts
from service.domain.findings.kinds import Status
from service.settings import Settings

One = dict[str, Any]
"""An item of the service's answer."""

_PARTITIONS_SHOWN: Final = 3


def run(flags: Namespace, settings: Settings) -> int:
    return _LISTS[flags.command.name](flags, Service(settings))


def _transactions(flags: Namespace, service: Service) -> int:
    """Prints the ids. CommandFailed (2) also for a producer id that no id has or had."""
    filters = ("state", "prefix", "min_age", "producer_id", "topic", "q", "sort")
    page = service.transactions({name: getattr(flags, name) for name in filters}, flags.limit)
    if not page["items"] and flags.producer_id is not None:
        service.owners(flags.producer_id)
    heads = (
        *("TRANSACTIONAL.ID", "STATE", "OPEN FOR", "PRODUCER ID", "EPOCH"),
        *("LAST UPDATE", "COMMITS", "ABORTS", "PARTITIONS"),
    )
    return print_page(page, flags.json, heads, lambda one: _transaction(one, page["as_of"]))


def _transaction(one: One, as_of: str | None) -> tuple[object, ...]:
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


def _partitions(flags: Namespace, service: Service) -> int:
    query = {"lagging": "true" if flags.lagging else None, "topic": flags.topic}
    page = service.partitions(query, flags.limit)
    heads = (
        *("PARTITION", "LAG", "LSO", "HIGH WATERMARK", "STALLED FOR"),
        *("BLOCKER", "RELATION", "OPEN", "GROUPS", "JUDGED"),
    )
    never = "nothing has been sampled yet"
    return print_page(page, flags.json, heads, lambda one: _partition(one, page["as_of"]), never)


def _partition(one: One, as_of: str | None) -> tuple[object, ...]:
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


def _findings(flags: Namespace, service: Service) -> int:
    filters = ("kind", "severity", "transactional_id", "topic", "partition")
    query: dict[str, Any] = {name: getattr(flags, name) for name in filters}
    if flags.status is not None:
        query["status"] = flags.status
    elif not flags.all:
        query["status"] = [Status.CANDIDATE, Status.CONFIRMED]
    page = service.findings(query, flags.limit)
    heads = ("SEVERITY", "STATUS", "KIND", "OPENED", "COUNT", "FINDING", "ID")
    answer = print_page(page, flags.json, heads, _finding)
    if page["truncated"]:
        by_kind = {one["kind"]: one["count"] for one in service.summary()["truncated"]}
        if asked := {kind: number for kind, number in by_kind.items() if not flags.kind or kind in flags.kind}:
            print(f"left out, too many at once: {describe_counts(asked)}", file=sys.stderr)
    return answer


def _finding(one: One) -> tuple[object, ...]:
    muted = f" (muted until {one['muted_until']})" if one.get("muted_until") else ""
    owner = f" [{one['owner']}]" if one.get("owner") else ""
    words = one["summary"] + owner + muted
    return one["severity"], one["status"], one["kind"], one["opened_at"], one["count"], words, one["id"]


def _expiring(flags: Namespace, service: Service) -> int:
    page = service.expiring(flags.within, flags.limit)
    heads = ("TRANSACTIONAL.ID", "EXPIRES IN", "AT", "STATE", "LAST UPDATE", "COMMITS")

    def row(one: One) -> tuple[object, ...]:
        at, counts = one["expires_at"], one["counts"]
        return name_of(one), _time_left(at, page["as_of"]), at, one["state"], one["last_updated_at"], counts["commits"]

    return print_page(page, flags.json, heads, row)


def _time_left(expires_at: str | None, as_of: str | None) -> str:
    """Returns the time until the id expires, or "past": the coordinator keeps an expired id until its next sweep."""
    if as_of is None or expires_at is None:
        return "-"
    is_past = datetime.fromisoformat(expires_at) <= datetime.fromisoformat(as_of)
    return "past" if is_past else age(as_of, expires_at)


def _groups(flags: Namespace, service: Service) -> int:
    page = service.groups({"blocked": "true" if flags.blocked else None}, flags.limit)
    heads = ("GROUP", "PARTITION", "RELATION", "COMMITTED", "LSO", "LAG TO LSO", "LAG TO HW", "MEMBERS", "OBSERVED")
    return print_page(page, flags.json, heads, _group)


def _group(one: One) -> tuple[object, ...]:
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


def _audit(flags: Namespace, service: Service) -> int:
    query = {name: getattr(flags, name) for name in ("action", "outcome", "who")}
    heads = ("WHEN", "WHO", "ADDRESS", "ACTION", "OUTCOME", "SUBJECT", "DETAIL")
    return print_page(service.audit(query, flags.limit), flags.json, heads, _audited)


def _audited(one: One) -> tuple[object, ...]:
    times = f"{one['outcome']} ({one['count']:,} times)" if one["count"] > 1 else one["outcome"]
    return one["at"], one["who"], one["address"], one["action"], times, one["subject"], one["detail"]


_LISTS: Final[dict[str, Callable[[Namespace, Service], int]]] = {
    "transactions": _transactions,
    "partitions": _partitions,
    "findings": _findings,
    "expiring": _expiring,
    "groups": _groups,
    "audit": _audit,
}
