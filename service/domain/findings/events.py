"""What happened to ids lately, and how many of them one sentence can speak of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from service.domain.findings.finding import Evidence, Occurrence, Subject
from service.domain.transaction_log import TOPIC

SINGLE_IDS: Final = 3
"""Ids of one prefix that get a finding each; more share one."""

MOST_SUBJECTS: Final = 50
"""Findings of one kind at a time; the rest share one."""

_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_PARTS = re.compile(r"[^-_.:/@#]+|[-_.:/@#]+")
_SEPARATORS: Final = "-_.:/@#"
_COUNTED = re.compile(r"(?:[0-9]{1,6})?(?:[-_.:/@#]+[0-9]{1,6})*[-_.:/@#]*")


class Event(NamedTuple):
    """A row of an id's history with a cause (a word of `service.domain.causes`) that counts; `name`: the id as text."""

    sequence: int
    transactional_id: bytes
    name: str
    partition: int
    offset: int
    at_ms: int
    from_state: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    duration_ms: int | None
    cause: str
    confidence: str


class Group(NamedTuple):
    """Events that one finding tells of. `label` begins a sentence: "pay-1", "12 ids that begin with pay-"."""

    subject: Subject
    label: str
    name: str
    ids: int
    events: tuple[Event, ...]

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        return tuple(Occurrence(e.sequence, e.at_ms) for e in self.events)

    @property
    def log_partition(self) -> int | None:
        return self.events[-1].partition if self.ids == 1 else None


def prefix_of(name: str) -> str:
    """What ids of one application have in common: the name without the parts at its end that number an instance.

    "pay-3" and "pay-17" are "pay-", "job-<uuid>-0_1" is "job-"; "billing" stays.
    """
    uuid = _UUID.search(name)
    if uuid is not None and uuid.start() == 0:
        return name
    parts = _PARTS.findall(name if uuid is None else name[: uuid.start()])
    kept = len(parts)
    while kept > 1 and (parts[kept - 1][0] in _SEPARATORS or any(c.isdigit() for c in parts[kept - 1])):
        kept -= 1
    if kept < len(parts) and parts[kept][0] in _SEPARATORS:
        kept += 1
    return "".join(parts[:kept]).rstrip("0123456789") or name


def is_random(name: str) -> bool:
    """Whether the part behind the prefix is made up anew, and no small number."""
    return _COUNTED.fullmatch(name[len(prefix_of(name)) :]) is None


def group_by_subject(events: Iterable[Event]) -> list[Group]:
    """At most MOST_SUBJECTS + 1 groups: single ids, prefixes with more than SINGLE_IDS of them, and the rest."""
    by_prefix: dict[str, dict[bytes, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in sorted(events):
        by_prefix[prefix_of(event.name)][event.transactional_id].append(event)
    groups = []
    for prefix, ids in by_prefix.items():
        if len(ids) > SINGLE_IDS:
            groups.append(_of_prefix(prefix, len(ids), [e for of_id in ids.values() for e in of_id]))
        else:
            groups += [_of_id(of_id) for of_id in ids.values()]
    groups.sort(key=lambda group: (-group.ids, -len(group.events), group.name))
    rest = groups[MOST_SUBJECTS:]
    if not rest:
        return groups
    count = sum(group.ids for group in rest)
    events_of_rest = tuple(sorted(e for group in rest for e in group.events))
    return [*groups[:MOST_SUBJECTS], Group(Subject(), f"{count:,} other ids", "", count, events_of_rest)]


def _of_id(events: Sequence[Event]) -> Group:
    name = events[-1].name
    return Group(Subject(transactional_id=events[-1].transactional_id), name, name, 1, tuple(events))


def _of_prefix(prefix: str, ids: int, events: Sequence[Event]) -> Group:
    label = f"{ids:,} ids that begin with {prefix}"
    return Group(Subject(prefix=prefix), label, prefix, ids, tuple(sorted(events)))


def place(event: Event) -> str:
    """Where in the coordinators' log it was read."""
    return f"{TOPIC}-{event.partition}@{event.offset}"


def evidence(event: Event, text: str) -> Evidence:
    return Evidence(event.at_ms, place(event), text)
