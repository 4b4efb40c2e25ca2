"""`txnscope hanging`: lists transactions that no coordinator is set to end, with producer, age, blocked groups and
remediation."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import timedelta
from textwrap import fill
from typing import Any, Final

from service.cli.errors import FINE, FOUND, PARTIAL
from service.cli.rest import Service
from service.cli.text import age, name_of, span, table
from service.domain.findings.formatting import join_names
from service.domain.partitions.group_offsets import OFFSETS_TOPIC
from service.settings import Settings

STALE_AFTER: Final = timedelta(seconds=30)
"""Age above which the last sample of partitions counts as out of date. Partitions are sampled several times a second.
"""

_GROUPS_READ: Final = 2_000
_NO_GROUPS: Final[dict[str, Any]] = {"items": [], "next_cursor": None}
_WIDTH = 100
_NOTHING: Final = {"watched": 0, "judged": 0, "unknown": 0, "why": "data partitions are not watched"}
_DECISIONS: Final = {
    "commit": "commit: its coordinator committed it; an abort would discard committed records",
    "abort": "abort: no committed transaction can have written these records; an abort discards them",
    "none": "none: these records belong to no transaction that this cluster committed; an abort discards them",
    "unknown": "unknown: the coordinator's decision is not proven",
}

Pending = dict[tuple[int, int | None], dict[str, list[str]]]
"""Pending offsets of consumer groups. The key is (partition of `__consumer_offsets`, producer id). The value has, for
each group, the partitions for which the group has pending offsets."""


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the hanging transactions. Returns 1 if a transaction hangs. If no transaction is known to hang, returns 0,
    or 4 if not everything could be judged and --allow-partial is not given. Raises CommandFailed: code 2 if the service
    refuses the request; 3 if the service does not answer."""
    service = Service(settings)
    page = service.items("hanging", flags.limit, {"application": flags.application})
    source: dict[str, Any] = next(
        (source for source in service.summary()["sources"] if source["source"] == "partitions"), {}
    )
    coverage = source.get("coverage", _NOTHING)
    of_offsets = any(one["subject"]["topic"] == OFFSETS_TOPIC for one in page["items"])
    groups = service.items("groups", _GROUPS_READ) if of_offsets else _NO_GROUPS
    gap = _gap(coverage, source.get("as_of"), service)
    if flags.json:
        print(json.dumps(page | {"coverage": coverage}, indent=2))
    else:
        pending = _pending(groups["items"])
        blocks = [_block(one, page["as_of"], pending) for one in page["items"]]
        print("\n\n".join(blocks) or _none(coverage, page["as_of"], flags.application))
        if groups["next_cursor"]:
            print(f"only the first {_GROUPS_READ:,} offsets of groups are read: more groups may wait", file=sys.stderr)
    if page["next_cursor"]:
        print(f"only the newest {len(page['items']):,} findings are shown (--limit)", file=sys.stderr)
    if page["truncated"]:
        print(f"{page['truncated']:,} more cases are left out, because too many exist at once", file=sys.stderr)
    if gap is not None:
        print(f"not everything can be judged: {gap}", file=sys.stderr)
    if page["items"]:
        return FOUND
    is_whole = gap is None and not page["truncated"]
    return FINE if is_whole or flags.allow_partial else PARTIAL


def _gap(coverage: dict[str, Any], as_of: str | None, service: Service) -> str | None:
    """Returns the reason why "no hanging transaction" would not be certain; None if there is no such reason."""
    if coverage["why"] or as_of is None:
        return str(coverage["why"] or "no data partition has been sampled yet")
    passed = service.since(as_of)
    if passed > STALE_AFTER:
        return f"the last sample of the partitions is {span(int(passed.total_seconds()))} old"
    if passed < -STALE_AFTER:
        ahead = span(int(-passed.total_seconds()))
        return f"the last sample of the partitions is {ahead} in the future: the clock was set back"
    return None


def _none(coverage: dict[str, Any], as_of: str | None, application: str | None) -> str:
    watched, judged = coverage["watched"], coverage["judged"]
    all_of = f"all {watched:,}" if watched and judged == watched else f"{judged:,} of {watched:,}"
    of = "" if application is None else f" of application {application}"
    when = "nothing has been read yet" if as_of is None else f"as of {as_of}"
    return f"no confirmed hanging transaction{of}: {all_of} watched partitions are judged, {when}"


def _pending(groups: list[dict[str, Any]]) -> Pending:
    """Returns the pending offsets in the items of the list `groups`."""
    found: Pending = {}
    for group in groups:
        if group["offsets_partition"] is not None:
            of_group = found.setdefault((group["offsets_partition"], group["producer_id"]), {})
            of_group.setdefault(group["group"], []).append(f"{group['topic']}-{group['partition']}")
    return found


def _block(one: dict[str, Any], as_of: str | None, pending: Pending) -> str:
    subject = one["subject"]
    place = f"{subject['topic']}-{subject['partition']}"
    lines = table((place, f"offset {subject['start_offset']}"), list(_lines(one, as_of, pending)))
    return "\n".join([lines, fill(one["advice"], _WIDTH), *([one["command"]] if one["command"] else [])])


def _lines(one: dict[str, Any], as_of: str | None, pending: Pending) -> Iterator[tuple[str, str]]:
    subject = one["subject"]
    producer = f"producer id {subject['producer_id']}"
    if subject["producer_epoch"] is not None:
        producer += f" epoch {subject['producer_epoch']}"
    owner = f" [{one['owner']}]" if one["owner"] else ""
    yield "who", f"{name_of(subject) or 'no transactional.id is known'}, {producer}{owner}"
    if one.get("application"):
        yield "application", one["application"]
    yield "found", f"{one['opened_at']} ({age(one['opened_at'], as_of)} ago)"
    yield "waiting", ", ".join(one["blocked_groups"]) or "no known consumer group"
    if subject["topic"] == OFFSETS_TOPIC:
        for group, places in pending.get((subject["partition"], subject["producer_id"]), {}).items():
            yield "offsets of", f"{group} on {join_names(places)}: a member that starts now waits"
    yield "confidence", one["confidence"]
    yield "decision", _DECISIONS.get(one["decision"], str(one["decision"]))
    if len(one["possible"]) > 1:
        yield "possible", " or ".join(one["possible"])
    for proof in one["proofs"]:
        yield f"by {proof['kind']}", proof["text"]
    if one["muted_until"]:
        yield "muted until", one["muted_until"]
    yield "finding", one["id"]
