"""Tests that findings and their counts do not depend on the batches in which the log partitions are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.findings.churn import Uses
from service.domain.findings.context import Context
from service.domain.findings.event_findings import REMEMBERED_MS, Lookups, find_in_events
from service.domain.findings.events import MOST_SUBJECTS, Event, subjects
from service.domain.findings.finding import Finding, Key, RoundResult, Subject
from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import reconcile
from service.domain.findings.rules import Rules
from service.domain.findings.settling import Settling
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.known_log import Limits, LogProgress, known_log
from tests.service.domain.findings.builders import NOW_MS, H, M, S, event

PARTITIONS = (0, 1, 2)
LIMITS = Limits(10 * S, 168 * H, H, frozenset())


class Judged:
    """Runs rounds of the judge over events. The judge knows an event as soon as the event's log partition is read up to
    the event.

    `used` has the first and the last time of use of each id that was used.
    """

    def __init__(self, written: Sequence[Event], used: Mapping[bytes, tuple[int, int]] | None = None) -> None:
        self.written = sorted(written, key=lambda e: e.at_ms)
        self.known: dict[int, Event] = {}  # by the sequence number in the store
        self.read_ms: dict[int, int] = {}
        self.stored: set[int] = set()  # sequences of `written`
        self.read_to = dict.fromkeys(PARTITIONS, NOW_MS)
        self.findings: dict[Key, Finding] = {}
        self.begun_ms = NOW_MS
        self.used = dict(used or {})

    def restart(self, now_ms: int) -> None:
        self.read_ms = {}
        self.begun_ms = now_ms

    def round(self, now_ms: int, read: Iterable[int] = PARTITIONS) -> None:
        for partition in read:
            self.read_to[partition] = now_ms
        for one in self.written:
            if one.sequence not in self.stored and one.at_ms <= self.read_to[one.partition]:
                self.stored.add(one.sequence)
                number = len(self.stored)
                self.known[number] = one._replace(sequence=number)
                self.read_ms[number] = now_ms
        context = self._context(now_ms)
        events = [e for e in self.known.values() if e.at_ms >= now_ms - REMEMBERED_MS]
        settling = Settling(context.log.settled_ms, self.read_ms, self.begun_ms, now_ms)
        lookups = Lookups(lambda _: {}, lambda ids: self._uses(ids, now_ms), lambda _: {})
        observations, _ = find_in_events(events, lookups, settling, context)
        for change in reconcile(self.findings, RoundResult(observations, frozenset()), now_ms, "c"):
            self.findings[change.finding.kind, change.finding.subject] = change.finding

    def _uses(self, ids: Iterable[bytes], now_ms: int) -> Uses:
        """Returns a mapping from each of `ids` that was used by `now_ms` to the time of its last use up to then. The
        judge asks only for ids whose log partition is read to its end."""
        spans = {
            transactional_id: self.used[transactional_id] for transactional_id in ids if transactional_id in self.used
        }
        return {one: min(end_ms, now_ms) for one, (begin_ms, end_ms) in spans.items() if begin_ms <= now_ms}

    def _context(self, now_ms: int) -> Context:
        """Returns the context of a round. If a log partition was not read up to `now_ms`, its end offset lies beyond
        its read position."""
        views = []
        for partition in PARTITIONS:
            behind = self.read_to[partition] < now_ms
            views.append(LogProgress(partition, 10, 0, int(behind), now_ms))
        return Context(known_log(LIMITS, views, now_ms), Rules(()))

    def counts(self) -> dict[Key, int]:
        return {key: finding.life.count for key, finding in self.findings.items()}


def follow(
    written: Sequence[Event], cuts: Random | None, used: Mapping[bytes, tuple[int, int]] | None = None
) -> dict[Key, int]:
    """Returns a mapping from the key of each finding to its count.

    Without `cuts`, the judge is always up to date. With `cuts`, the judge lags and restarts at random.
    """
    judged = Judged(written, used)
    now_ms, end_ms = NOW_MS, max(e.at_ms for e in written)
    while now_ms < end_ms:
        if cuts is None:
            now_ms += 1 * S
            if any(0 <= now_ms - e.at_ms <= 90 * S for e in written):  # in other rounds there is nothing to report
                judged.round(now_ms)
            continue
        now_ms += cuts.randrange(200, 20 * S)
        if not cuts.randrange(8):
            judged.restart(now_ms)
        judged.round(now_ms, [p for p in PARTITIONS if cuts.randrange(3)])
    for n in range(1, 50):
        judged.round(max(now_ms, end_ms) + n * 2 * S)
    return judged.counts()


NAMES = ("a", "b", "c", "pay-1", "pay-2", "pay-3", "pay-4", "pay-5", "billing")


def timeout(at_ms: int, name: str) -> Event:
    partition = len(name) % len(PARTITIONS) if name.isalpha() else int(name[-1], 16) % len(PARTITIONS)
    return event(0, name, ago_ms=-at_ms, partition=partition)


def numbered(events: Iterable[Event]) -> list[Event]:
    return [e._replace(sequence=n) for n, e in enumerate(events)]


def spans(longest_s: int) -> st.SearchStrategy[int]:
    """Returns a strategy for the time in ms between two events: within one outage, somewhat longer, or up to
    `longest_s` seconds."""
    return st.one_of(st.integers(0, 3 * S), st.integers(0, 25 * S), st.integers(0, longest_s * S))


def history(cause: CauseCode, names: Sequence[str], longest_s: int) -> st.SearchStrategy[list[Event]]:
    def build(steps: list[tuple[int, str]]) -> list[Event]:
        at_ms, events = 0, []
        for gap_ms, name in steps:
            at_ms += gap_ms + 1
            events.append(timeout(at_ms, name)._replace(cause=cause))
            if cause == CauseCode.FENCED:
                events[-1] = events[-1]._replace(duration_ms=gap_ms % 5_000)
                let_in = timeout(at_ms + 100, name)
                events.append(let_in._replace(cause=CauseCode.INITIALIZED, from_state=states.COMPLETE_ABORT))
        return numbered(sorted(events, key=lambda e: e.at_ms))

    return st.lists(st.tuples(spans(longest_s), st.sampled_from(names)), min_size=1, max_size=30).map(build)


@pytest.mark.parametrize(
    ("cause", "names", "longest_s"),
    [
        (CauseCode.TIMEOUT, NAMES, 240),
        (CauseCode.EXPIRY, NAMES, 240),
        (CauseCode.FENCED, NAMES, 120),
        (CauseCode.FENCED, NAMES[3:8], 30),
    ],
)
def test_findings_do_not_depend_on_how_events_are_split_into_rounds(
    cause: CauseCode, names: Sequence[str], longest_s: int
) -> None:
    @settings(max_examples=60)
    @given(history(cause, names, longest_s), st.integers(0, 2**32))
    def check(written: list[Event], seed: int) -> None:
        assert follow(written, Random(seed)) == follow(written, None)

    check()


def test_a_conflict_is_reported_once_no_later_fence_can_change_it() -> None:
    """A fence may belong to a restart of the whole application, unless its id is fenced again within ROUND_MS (10 s).
    So a conflict is certain only after that time. The conflicts of pay-3 and pay-4 change the subject of the finding
    from one id to the prefix."""
    fences = [(4, "pay-2", 0), (5, "pay-3", 0), (6, "pay-4", 0), (104, "pay-2", 97), (105, "pay-3", 0)]
    fences += [(107, "pay-4", 1), (108, "pay-1", 0), (207, "pay-2", 98), (515, "pay-1", 307), (1_176, "pay-1", 660)]
    fences += [(3_176, "pay-3", 1_999), (11_900, "pay-1", 3_000), (13_900, "pay-4", 1_999), (16_901, "pay-4", 3_000)]
    events = []
    for at_ms, name, open_ms in fences:
        events.append(timeout(at_ms, name)._replace(cause=CauseCode.FENCED, duration_ms=open_ms))
        let_in = timeout(at_ms + 100, name)
        events.append(let_in._replace(cause=CauseCode.INITIALIZED, from_state=states.COMPLETE_ABORT))
    written = numbered(sorted(events, key=lambda e: e.at_ms))
    prompt = follow(written, None)
    assert prompt.keys() == {(Kind.FENCING_CONFLICT, Subject(prefix="pay-"))}
    assert all(follow(written, Random(seed)) == prompt for seed in range(10))


def test_events_of_a_lagging_partition_are_counted_in_their_outage() -> None:
    """The judge has already counted later events of the outage, from other log partitions."""
    steps = [(1, "a"), (3_000, "b"), (3_001, "pay-3"), (5_235, "c"), (20_235, "pay-1"), (35_235, "pay-5")]
    written = numbered(timeout(at_ms, name) for at_ms, name in [*steps, (36_032, "a"), (39_033, "a")])
    outage = (Kind.CORRELATED_TIMEOUTS, Subject())
    judged = Judged(written)
    judged.round(NOW_MS + 37 * S, [1])
    assert judged.counts() == {}
    judged.round(NOW_MS + 40 * S, [0, 1])
    assert judged.counts() == {outage: 5}, (
        "the last two events join the outage only through events that are not read yet"
    )
    judged.round(NOW_MS + 41 * S)
    assert judged.counts() == {outage: 8}


@settings(max_examples=60)
@given(
    st.lists(st.tuples(spans(240), st.integers(0, 30), st.integers(0, 300 * S)), min_size=5, max_size=30),
    st.integers(0, 2**32),
)
def test_churn_does_not_depend_on_how_events_are_split_into_rounds(
    steps: list[tuple[int, int, int]], seed: int
) -> None:
    at_ms, events = 0, []
    used: dict[bytes, tuple[int, int]] = {}
    for gap_ms, n, lives_ms in steps:
        at_ms += gap_ms + 1
        new = timeout(at_ms, f"etl-{n:04x}ab{n % 10}")
        events.append(new._replace(cause=CauseCode.INITIALIZED, from_state=states.NEVER_SEEN, partition=0))
        used.setdefault(new.transactional_id, (new.at_ms, new.at_ms + lives_ms))
    written = numbered(events)
    assert follow(written, Random(seed), used) == follow(written, None, used)


def test_the_subject_of_an_event_depends_only_on_events_near_it() -> None:
    """The subject of an event is the same if events outside a window around the event are left out."""
    random = Random(7)
    events = numbered(
        timeout(n * 12 * S, "".join(random.choices("abcdefgh", k=random.choice((1, 2, 3))))) for n in range(300)
    )
    whole = {e.sequence: subject for e, subject, _ in subjects(events, 15 * S)}
    assert Subject() in whole.values()
    for one in events:
        near = [e for e in events if -15 * M <= e.at_ms - one.at_ms <= 15 * S]
        assert {e.sequence: subject for e, subject, _ in subjects(near, 15 * S)}[one.sequence] == whole[one.sequence]
        assert len({e.transactional_id for e in near}) > MOST_SUBJECTS or whole[one.sequence] != Subject()


@pytest.mark.parametrize(
    ("views", "settled_ms"),
    [
        ([], None),
        ([LogProgress(0, 1, 5, 5, NOW_MS - 3 * S), LogProgress(1, 1, 5, 5, NOW_MS)], NOW_MS - 3 * S),
        ([LogProgress(0, 1, 5, 5, NOW_MS - H)], NOW_MS - H),
        ([LogProgress(0, 1, 4, 5, NOW_MS), LogProgress(1, 1, 5, 5, NOW_MS)], None),
        ([LogProgress(0, 1, 4, 5, NOW_MS - 31 * S), LogProgress(1, 1, 5, 5, NOW_MS)], NOW_MS),
        ([LogProgress(0, 1, 4, 5, NOW_MS - 30 * S), LogProgress(1, 1, 5, 5, NOW_MS)], None),
        ([LogProgress(0, 1, 5, 5, NOW_MS + 2 * S)], None),
    ],
)
def test_the_log_is_settled_up_to_the_oldest_complete_read(views: list[LogProgress], settled_ms: int | None) -> None:
    assert known_log(LIMITS, views, NOW_MS).settled_ms == settled_ms
