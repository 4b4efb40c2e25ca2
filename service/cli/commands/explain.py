"""`txnscope explain TOPIC-PARTITION@OFFSET`: shows who wrote the records, and how their transactions ended."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from textwrap import fill
from typing import Any, Final

from service.api.schemas.shape import to_json
from service.cli.errors import FINE, CommandFailed
from service.cli.rest import Service
from service.cli.segments.explanation import explain_segments
from service.cli.text import name_of, table
from service.domain.partitions.aborted_run import only_aborted_text
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.marker_causes import BY_HAND_TEXT
from service.domain.partitions.offset_spans import SpanKind
from service.domain.partitions.own_transactions import decision_text
from service.domain.transaction_log.abort_explanation import why_ended
from service.settings import Settings
from service.store.escaped_text import printable

_PLACE: Final = re.compile(r"(?:(.+)-([0-9]{1,10}))?@([0-9]{1,19})", re.DOTALL)
_HEADS = ("OFFSETS", "KIND", "PRODUCER ID", "TRANSACTIONAL.ID", "MARKER", "ENDED", "CAUSE")
_WIDTH = 100


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the spans of offsets, and explains them. Raises CommandFailed: code 2 for a partition, offset or file that
    is mistyped or does not exist; 3 if the service or Kafka does not answer."""
    place, offset = _place(flags.place)
    to = offset + 1 if flags.to is None else flags.to
    if to <= offset:
        raise CommandFailed(f"--to {to} has to be above the offset {offset}")
    end = None
    if flags.segments:
        explanation, end = explain_segments(flags.segments, offset, to, place)
        found = json.loads(to_json(explanation))
    elif place is None:
        raise CommandFailed(f"{flags.place!r} has no partition: give TOPIC-PARTITION@OFFSET, or --segments FILE…")
    else:
        found = Service(settings).explain(*place, offset, to)
    if flags.json:
        print(json.dumps(found, indent=2))
        return FINE
    print(table(_HEADS, [_row(span) for span in found["spans"]]))
    if (run := found.get("only_aborted")) is not None:
        print(f"\n{fill(_only_aborted(run), _WIDTH)}")
    texts = (*map(_decided, found["spans"]), *map(_why, found["spans"]))
    for text in dict.fromkeys(filter(None, texts)):
        print(f"\n{fill(text, _WIDTH)}")
    if end is not None and any(span["kind"] == SpanKind.OPEN for span in found["spans"]):
        print(f"open spans have no marker in these files, which end at offset {end}", file=sys.stderr)
    if found["truncated_at"] is not None:
        print(f"reading stopped at offset {found['truncated_at']}: run explain again from that offset", file=sys.stderr)
    return FINE


def _place(text: str) -> tuple[TopicPartition | None, int]:
    """Parses TOPIC-PARTITION@OFFSET, or @OFFSET. The partition follows the last `-`, because a topic's name may contain
    `-`. Raises CommandFailed (2) for any other text."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise CommandFailed(f"{text!r} is no TOPIC-PARTITION@OFFSET, like orders-0@17")
    topic, partition, offset = found.groups()
    return None if topic is None else (topic, int(partition)), int(offset)


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    last = one["to"] - 1
    producer = None if one["producer_id"] is None else f"{one['producer_id']} epoch {one['producer_epoch']}"
    marker = one.get("marker")
    if marker is not None and one["kind"] != "marker":
        marker = f"{marker} at {one['marker_offset']}"
    elif one.get("ends_nothing"):
        marker = f"{marker}, ends nothing"
    elif marker is None and (decision := one.get("decision")) is not None:
        perhaps = "perhaps " if decision["may_be_other"] else ""
        marker = f"{perhaps}{decision['marker'] or 'decided'}, missing"
    return (
        f"{one['from']}" if last == one["from"] else f"{one['from']}..{last}",
        one["kind"].replace("_", " "),
        producer,
        name_of(one),
        marker,
        one["ended_at"],
        one["cause"] and f"{_cause_of(one)} ({one['confidence']})",
    )


def _cause_of(one: dict[str, Any]) -> str:
    return "a marker by hand" if one.get("by_hand") else str(one["cause"]).replace("_", " ")


def _only_aborted(run: dict[str, Any]) -> str:
    names = [printable(name_of(owner) or f"producer id {owner['producer_id']}") for owner in run["owners"]]
    counts = (run["from"], run["to"], run["records"], run["transactions"])
    return only_aborted_text(*counts, names, run["more_owners"], run["ended_by"])


def _decided(one: dict[str, Any]) -> str | None:
    """Returns the coordinator's decision about the transaction that wrote the records, in sentences. Returns None
    unless the transaction's marker is missing."""
    decision = one.get("decision")
    if decision is None:
        return None
    ended_by = None if one["marker_offset"] is None else f"{one['marker']} at {one['marker_offset']}"
    return decision_text(
        decision["marker"], decision["confidence"], may_be_other=decision["may_be_other"], ended_by=ended_by
    )


def _why(one: dict[str, Any]) -> str | None:
    """Returns how the transaction of the records ended, in sentences; None if there is nothing to explain."""
    decision = one.get("decision")
    if one["kind"] not in ("aborted", "committed") or (decision is not None and not decision["may_be_other"]):
        return None  # the cause belongs to another outcome
    if one.get("by_hand"):
        return BY_HAND_TEXT
    if one["cause"] is None:
        return None
    return why_ended(one["cause"], one["confidence"])
