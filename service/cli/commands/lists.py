"""The commands that print one of the service's lists as a table: transactions, applications, partitions, findings,
expiring, groups, audit. Each raises CommandFailed: code 3 if the service does not answer; 2 if the service refuses a
filter."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from service.cli.errors import FINE
from service.cli.rest import Service
from service.cli.text import age, name_of, print_page
from service.domain.findings.formatting import describe_counts
from service.domain.findings.kinds import Status
from service.settings import Settings

One = dict[str, Any]
"""An item of the service's answer."""

_PARTITIONS_SHOWN: Final = 3


class _List(NamedTuple):
    """A list of the service, as a table. `filters`: the flags that become parameters of the request. `row`: a function
    that returns the cells of an item; its second argument is the `as_of` of the list."""

    filters: tuple[str, ...]
    heads: str
    row: Callable[[One, str | None], tuple[object, ...]]


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the list, and returns 0. Raises CommandFailed: code 3 if the service does not answer; 2 if the service
    refuses a filter, such as a producer id that no transactional.id has or had."""
    service, name = Service(settings), flags.command.name
    filters, heads, row = _LISTS[name]
    query = {each: getattr(flags, each) for each in filters}
    if name == "findings" and flags.status is None and not flags.all:
        query["status"] = [Status.CANDIDATE, Status.CONFIRMED]
    page = service.items(name, flags.limit, query)
    if not page["items"] and query.get("producer_id") is not None:
        service.check_producer_id(flags.producer_id)
    never = "nothing has been sampled yet" if name == "partitions" else "nothing has been read yet"
    print_page(page, flags.json, heads.split(", "), lambda one: row(one, page["as_of"]), never)
    if page.get("truncated"):
        _print_left_out(service.summary()["truncated"], flags.kind)
    return FINE


def _print_left_out(truncated: Sequence[One], kind: str | None) -> None:
    if left_out := {one["kind"]: one["count"] for one in truncated if kind in (None, one["kind"])}:
        print(f"left out, because too many exist at once: {describe_counts(left_out)}", file=sys.stderr)


def _transaction(one: One, as_of: str | None) -> tuple[object, ...]:
    names = [f"{each['topic']}-{each['partition']}" for each in one["partitions"]]
    rest = f" +{len(names) - _PARTITIONS_SHOWN}" if len(names) > _PARTITIONS_SHOWN else ""
    counts = one["counts"]
    return (
        name_of(one),
        one.get("application"),
        one["state"],
        age(one["started_at"], as_of),
        one["producer_id"],
        one["producer_epoch"],
        one["last_updated_at"],
        counts["commits"],
        sum(counts["aborts"].values()),
        ",".join(names[:_PARTITIONS_SHOWN]) + rest or "-",
    )


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


def _application(one: One, as_of: str | None) -> tuple[object, ...]:
    aborts, share = one["counts"]["aborts"], one["failed_share"]
    return (
        one["name"],
        ",".join(one["kinds"]) or "-",
        one["ids"],
        one["open"],
        age(one["oldest_open_at"], as_of),
        one["counts"]["commits"],
        *(aborts[cause] for cause in ("client", "timeout", "fenced", "admin", "unattributed")),
        "-" if share is None else f"{share:.2%}",
        len(one["blocked_partitions"]),
        ",".join(one["blocked_groups"]) or "-",
    )


def _finding(one: One, _: str | None) -> tuple[object, ...]:
    muted = f" (muted until {one['muted_until']})" if one.get("muted_until") else ""
    of = ", ".join(filter(None, (one.get("application"), one.get("owner"))))
    words = one["summary"] + (f" [{of}]" if of else "") + muted
    return one["severity"], one["status"], one["kind"], one["opened_at"], one["count"], words, one["id"]


def _expiring(one: One, as_of: str | None) -> tuple[object, ...]:
    at, commits = one["expires_at"], one["counts"]["commits"]
    return name_of(one), _time_left(at, as_of), at, one["state"], one["last_updated_at"], commits


def _time_left(expires_at: str | None, as_of: str | None) -> str:
    """Returns the time until the id expires, or "past": the coordinator keeps an expired id until its next sweep.
    Returns "-" if the time is not known."""
    if as_of is None or expires_at is None:
        return "-"
    is_past = datetime.fromisoformat(expires_at) <= datetime.fromisoformat(as_of)
    return "past" if is_past else age(as_of, expires_at)


def _group(one: One, _: str | None) -> tuple[object, ...]:
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


def _audited(one: One, _: str | None) -> tuple[object, ...]:
    times = f"{one['outcome']} ({one['count']:,} times)" if one["count"] > 1 else one["outcome"]
    return one["at"], one["who"], one["address"], one["action"], times, one["subject"], one["detail"]


_LISTS: Final = {
    "transactions": _List(
        ("state", "prefix", "min_age", "producer_id", "topic", "application", "q", "sort"),
        "TRANSACTIONAL.ID, APPLICATION, STATE, OPEN FOR, PRODUCER ID, EPOCH, LAST UPDATE, COMMITS, ABORTS, PARTITIONS",
        _transaction,
    ),
    "partitions": _List(
        ("lagging", "topic", "application"),
        "PARTITION, LAG, LSO, HIGH WATERMARK, STALLED FOR, BLOCKER, RELATION, OPEN, GROUPS, JUDGED",
        _partition,
    ),
    "findings": _List(
        ("kind", "severity", "transactional_id", "topic", "partition", "application", "status"),
        "SEVERITY, STATUS, KIND, OPENED, COUNT, FINDING, ID",
        _finding,
    ),
    "applications": _List(
        (),
        "APPLICATION, KIND, IDS, OPEN, OLDEST OPEN, COMMITS, CLIENT ABORTS, TIMEOUTS, FENCED, ADMIN, UNATTRIBUTED,"
        " FAILED, PARTITIONS, BLOCKED GROUPS",
        _application,
    ),
    "expiring": _List(
        ("within", "application"), "TRANSACTIONAL.ID, EXPIRES IN, AT, STATE, LAST UPDATE, COMMITS", _expiring
    ),
    "groups": _List(
        ("blocked", "application"),
        "GROUP, PARTITION, RELATION, COMMITTED, LSO, LAG TO LSO, LAG TO HW, MEMBERS, OBSERVED",
        _group,
    ),
    "audit": _List(("action", "outcome", "who"), "WHEN, WHO, ADDRESS, ACTION, OUTCOME, SUBJECT, DETAIL", _audited),
}
