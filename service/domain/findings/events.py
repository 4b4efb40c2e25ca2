"""Recent events of ids, and their grouping, which keeps the number of findings bounded."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from service.domain.findings.finding import Evidence, Occurrence, Subject
from service.domain.findings.kinds import QUIET_MS
from service.domain.partitions.facts import LogPlace
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.states import TOPIC

SINGLE_IDS: Final = 3
"""Maximum number of ids of one prefix that get a finding each. If there are more, all ids of the prefix share one."""

MOST_SUBJECTS: Final = 50
"""Maximum number of subjects of one kind that get a finding each. All further subjects share one finding."""

_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_PROCESS = re.compile(rf"(?P<process>.+-{_UUID.pattern})-[0-9]{{1,4}}")
_PARTS = re.compile(r"[^-_.:/@#]+|[-_.:/@#]+")
_SEPARATORS: Final = "-_.:/@#"
_COUNTED = re.compile(r"(?:[0-9]{1,6})?(?:[-_.:/@#]+[0-9]{1,6})*[-_.:/@#]*")


class Event(NamedTuple):
    """A transition of an id, with its cause (`transaction_log.causes`): a row of the history that the store keeps.
    `name`: the id as text."""

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
    cause: CauseCode
    confidence: Confidence


class ReportWindow(NamedTuple):
    """The window of events that may be reported: events at `since_ms` or later with a sequence below `before_sequence`
    (None: any sequence)."""

    since_ms: int = 0
    before_sequence: int | None = None

    def includes(self, event: Event) -> bool:
        return event.at_ms >= self.since_ms and (self.before_sequence is None or event.sequence < self.before_sequence)


@dataclass(frozen=True, slots=True)
class Whose:
    """The ids of a finding about events. `name`: the name of the only id, or the prefix that all ids share; "" if they
    share no prefix."""

    name: str
    ids: int

    def text(self, subject: Subject) -> str:
        """Returns the beginning of a sentence, like "pay-1" or "12 ids that begin with pay-"."""
        if subject.prefix is not None:
            return f"{self.ids:,} ids that begin with {self.name}"
        return self.name or f"{self.ids:,} other {'id' if self.ids == 1 else 'ids'}"


class Group(NamedTuple):
    """Events that one finding reports."""

    subject: Subject
    whose: Whose
    events: tuple[Event, ...]

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        return tuple(Occurrence(e.sequence, e.at_ms) for e in self.events)

    @property
    def log_partition(self) -> int | None:
        return self.events[-1].partition if self.whose.ids == 1 else None


def prefix_of(name: str) -> str:
    """Returns the prefix that the ids of one application share: the name without the parts at its end that number an
    instance.

    "pay-3" and "pay-17" become "pay-", "job-<uuid>-0_1" becomes "job-"; "billing" stays, and so does a name that begins
    with a UUID."""
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


def is_generated(name: str) -> bool:
    """Returns whether the part of an id after its prefix was generated: whether it contains more than separators and
    numbers of at most 6 digits."""
    return _COUNTED.fullmatch(name[len(prefix_of(name)) :]) is None


def generated_part(name: str) -> str:
    """Returns the part of the id that all ids of one process share: the id up to and including a UUID, if a thread
    number follows the UUID, as in Kafka Streams. Returns any other id unchanged."""
    found = _PROCESS.fullmatch(name)
    return name if found is None else found["process"]


T = TypeVar("T")


def change_count(counter: Counter[T], key: T, by: int) -> None:
    """Adds `by` to the count of `key`, and removes the count if it becomes 0."""
    counter[key] += by
    if not counter[key]:
        del counter[key]


class _Window:
    """Counts, for each prefix, the ids that have events in a span of time. Ranks the subjects of possible findings
    about these events, because only the first MOST_SUBJECTS get a finding each."""

    def __init__(self) -> None:
        self._ids: dict[str, Counter[bytes]] = defaultdict(Counter)
        self._ranked: list[tuple[bool, bytes]] = []

    def add(self, event: Event, prefix: str) -> None:
        ids = self._ids[prefix]
        if event.transactional_id not in ids:
            self._rank(prefix, remove=True)
            ids[event.transactional_id] = 0
            self._rank(prefix)
        ids[event.transactional_id] += 1

    def remove(self, event: Event, prefix: str) -> None:
        ids = self._ids[prefix]
        ids[event.transactional_id] -= 1
        if not ids[event.transactional_id]:
            self._rank(prefix, remove=True)
            del ids[event.transactional_id]
            self._rank(prefix)

    def subject(self, event: Event, prefix: str) -> tuple[Subject, int]:
        """Returns the subject of a finding about the event, and its number of ids (0 for the shared finding)."""
        ids = self._ids[prefix]
        is_shared = len(ids) > SINGLE_IDS
        key = _rank_of(prefix) if is_shared else (True, event.transactional_id)
        if bisect_left(self._ranked, key) >= MOST_SUBJECTS:
            return Subject(), 0
        return (Subject(prefix=prefix), len(ids)) if is_shared else (Subject(transactional_id=key[1]), 1)

    def _rank(self, prefix: str, remove: bool = False) -> None:
        """Adds the subjects of a prefix's ids to the ranking, or removes them. Prefixes come before single ids."""
        ids = self._ids[prefix]
        for key in (
            [_rank_of(prefix)] if len(ids) > SINGLE_IDS else [(True, transactional_id) for transactional_id in ids]
        ):
            if remove:
                del self._ranked[bisect_left(self._ranked, key)]
            else:
                insort(self._ranked, key)


def _rank_of(prefix: str) -> tuple[bool, bytes]:
    return False, prefix.encode(errors="surrogatepass")


def subjects(events: Iterable[Event], after_ms: int) -> Iterator[tuple[Event, Subject, int]]:
    """Yields (event, subject of the finding about the event, number of ids of the subject), in the order of the log's
    times. The number is 0 for the subject that is shared.

    The subject is the event's id, or the id's prefix if more than SINGLE_IDS ids of the prefix have events in the time
    from QUIET_MS before this event to `after_ms` after it. Subjects beyond MOST_SUBJECTS share one. So a subject never
    changes once `after_ms` have passed, in whatever batches the events arrive.
    """
    ordered = [(e, prefix_of(e.name)) for e in sorted(events, key=lambda e: (e.at_ms, e.sequence))]
    window = _Window()
    begin = end = 0
    for event, prefix in ordered:
        while end < len(ordered) and ordered[end][0].at_ms <= event.at_ms + after_ms:
            window.add(*ordered[end])
            end += 1
        while ordered[begin][0].at_ms < event.at_ms - QUIET_MS:
            window.remove(*ordered[begin])
            begin += 1
        yield event, *window.subject(event, prefix)


def group_by_subject(events: Iterable[Event], after_ms: int, window: ReportWindow) -> list[Group]:
    """Returns the groups of the events in `window`: the largest first, and last the group of all subjects beyond
    MOST_SUBJECTS.

    Events outside of `window` only count towards the number of ids of a prefix.
    """
    groups: dict[Subject, tuple[int, list[Event]]] = {}
    for event, subject, ids in subjects(events, after_ms):
        if window.includes(event):
            of_subject = groups.get(subject, (0, []))[1]
            of_subject.append(event)
            groups[subject] = ids, of_subject
    found = [_group(subject, ids, tuple(sorted(some))) for subject, (ids, some) in groups.items()]
    return sorted(
        found, key=lambda group: (group.subject == Subject(), -group.whose.ids, -len(group.events), group.whose.name)
    )


def _group(subject: Subject, ids: int, events: tuple[Event, ...]) -> Group:
    if subject.transactional_id is not None:
        return Group(subject, Whose(events[-1].name, 1), events)
    if subject.prefix is not None:
        return Group(subject, Whose(subject.prefix, ids), events)
    return Group(subject, Whose("", len({e.transactional_id for e in events})), events)


def place(event: Event) -> LogPlace:
    """Returns the log partition and offset at which the event was read."""
    return LogPlace(TOPIC, event.partition, event.offset)


def evidence(event: Event, text: str) -> Evidence:
    return Evidence(event.at_ms, place(event), text)
