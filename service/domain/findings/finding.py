"""Types of an observation (the facts that one judge round finds) and of a finding (an observation that is kept). Times
are ms since the epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NewType

from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.domain.partitions.facts import LogPlace
from service.domain.reasons.hanging import Contradiction, HangReason
from service.domain.reasons.reason import Reason
from service.domain.transaction_log.causes import Confidence
from service.domain.worlds.verdict import Decided, Proof, World

EVIDENCE_KEPT: Final = 10


class Subject(NamedTuple):
    """The subject of a finding: identifies the finding among all of the same kind. All fields None: the finding is
    about the whole cluster, or is the one that all subjects beyond a maximum share.

    `transactional_id` is the log's bytes; `prefix` is text with which all ids of the finding begin.
    """

    topic: str | None = None
    partition: int | None = None
    transactional_id: bytes | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    start_offset: int | None = None
    group: str | None = None
    prefix: str | None = None


class Evidence(NamedTuple):
    """A fact with its time, its source (the place where the fact can be read again, or the party that reported it), and
    a text."""

    at_ms: int
    source: LogPlace | str
    text: str


class Occurrence(NamedTuple):
    """One event. `sequence`: the event's number in the store or, for lost records, their first offset; keeps the event
    from being counted twice."""

    sequence: int
    at_ms: int


class Acknowledgement(NamedTuple):
    """An operator's statement that a finding was seen and needs nothing more: when, who, and why."""

    at_ms: int
    by: str
    reason: str


Sentence = NewType("Sentence", str)
"""Text for people, made from facts where it is shown. Code never parses it."""


class Words(NamedTuple):
    """A finding in words. `title`: the problem, as one clause without a full stop; `detail`: a second clause, or "".
    `advice`: whole sentences."""

    title: str
    advice: str
    detail: str = ""


class Facts(ABC):
    """The base of the facts of each kind of finding. Facts are frozen, typed values. The store keeps the facts, and the
    words of a finding are made from them.

    The values contain no ages, and nothing else that changes by itself, because every change is stored.
    """

    __slots__ = ()

    @abstractmethod
    def words(self, about: Observation, /) -> Words:
        """Returns the finding in words. Uses only fields of `about` that the store also keeps: kind, subject,
        decision, reason, possible worlds and confidence."""


@dataclass(frozen=True, slots=True)
class SharedFacts(Facts):
    """Facts of a finding that can report several problems. `more`: if above 0, the number of problems that share this
    finding; the other fields then describe the first of these problems, or are empty."""

    more: int = field(default=0, kw_only=True)

    def shared(self, more: int) -> SharedFacts:
        return replace(self, more=more)

    def rest(self, one: str, many: str) -> str:
        """Returns the number of problems and their name, like "3 more groups". `one`: the name after 1; `many`: the
        name after any other number."""
        return f"{self.more:,} more {one if self.more == 1 else many}"


@dataclass(frozen=True, slots=True)
class UnreadableFacts(Facts):
    """Facts in the store that this version cannot read: damaged, or of another version. `stored`: the text in the
    store, unchanged."""

    stored: str

    def words(self, about: Observation, /) -> Words:
        return Words(
            f"{about.kind}: the facts of this finding cannot be read from the store, so they cannot be described",
            "The facts are damaged, or of another version of txnscope. If the problem still exists, the judge stores"
            " them anew in its next round. The evidence is as it was observed.",
        )


class Observation(NamedTuple):
    """The facts about a subject, as one round of the judge finds them. The same facts always give the same words.

    - `facts`: of the kind's own type.
    - `log_partition`: the partition of the transaction log on which the observation depends; None if it depends on
      none or on several.
    - `ids`: the number of ids, topics or groups that a condition is about.
    - `occurrences`: the occurrences of an event that the round reports, oldest first, even if an earlier round reported
      them; `waiting`: sequences of events that may become occurrences later.
    - `confirmed`: False for a candidate.
    - `decision`: the decision about a transaction that hangs (commit, abort, none, unknown).
    - `bootstrap`: the servers for `Finding.command`, which writes an ABORT marker; None where no ABORT is advised.
    - `possible`: the worlds in which the entry may have been written; `proofs` removed the others.
    - `reason`: the reason of a coverage gap or of a hang, as a typed value.
    """

    kind: Kind
    severity: Severity
    subject: Subject
    facts: Facts
    evidence: tuple[Evidence, ...]
    confidence: Confidence = Confidence.CERTAIN
    self_heals_at_ms: int | None = None
    log_partition: int | None = None
    ids: int = 1
    occurrences: tuple[Occurrence, ...] = ()
    waiting: tuple[int, ...] = ()
    confirmed: bool = True
    owner: str | None = None
    muted_until_ms: int | None = None
    decision: Decided | None = None
    bootstrap: str | None = None
    blocked_groups: tuple[str, ...] = ()
    possible: tuple[World, ...] = ()
    proofs: tuple[Proof, ...] = ()
    reason: Reason | None = None

    @property
    def title(self) -> Sentence:
        return Sentence(self.facts.words(self).title)

    @property
    def detail(self) -> Sentence:
        return Sentence(self.facts.words(self).detail)

    @property
    def advice(self) -> Sentence:
        return Sentence(self.facts.words(self).advice)

    @property
    def summary(self) -> Sentence:
        title, _, detail = self.facts.words(self)
        return Sentence(f"{title}; {detail}" if detail else title)

    @property
    def kept(self) -> Observation:
        """Returns the part of the observation that a finding keeps: only the newest evidence, and none of `ids`,
        `occurrences`, `waiting` and `confirmed`. The finding's Life is made from these four fields."""
        return self._replace(ids=1, occurrences=(), waiting=(), confirmed=True, evidence=self.evidence[-EVIDENCE_KEPT:])


@dataclass(frozen=True, slots=True)
class Life:
    """The course of one episode of a finding, from its opening to its resolution: times, status and counts.
    `counted_to`: the sequence of the newest event that was counted (-1: none). `passed_over`: sequences below
    `counted_to` that were not counted and may be counted later."""

    status: Status
    opened_at_ms: int
    confirmed_at_ms: int | None
    last_seen_ms: int
    count: int
    counted_to: int = -1
    passed_over: tuple[int, ...] = ()
    reopened: bool = False
    resolved_at_ms: int | None = None
    resolution: Resolution | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """An observation that is kept, and its life: a row of the store. `acknowledgement`: comes from a table of its own;
    None in the findings that the judge handles. `application`: the application of the ids that the finding is about;
    None if not known. In the judge it is None, because only the store knows it."""

    id: str
    observation: Observation
    life: Life
    acknowledgement: Acknowledgement | None = None
    application: str | None = None

    @property
    def kind(self) -> Kind:
        return self.observation.kind

    @property
    def subject(self) -> Subject:
        return self.observation.subject

    @property
    def severity(self) -> Severity:
        return self.observation.severity

    @property
    def status(self) -> Status:
        return self.life.status

    @property
    def summary(self) -> Sentence:
        return self.observation.summary

    @property
    def command(self) -> str | None:
        """Returns Kafka's own command that writes the ABORT marker, ready to be pasted; None if no ABORT is advised, or
        if the finding is a candidate or resolved."""
        if self.status != Status.CONFIRMED:
            return None
        return self._kafka_transactions("abort", f" --start-offset {self.subject.start_offset}")

    @property
    def look_command(self) -> str | None:
        """Returns Kafka's own command that shows what an ABORT marker would end; None where no ABORT is advised."""
        return self._kafka_transactions("describe-producers", "")

    def _kafka_transactions(self, action: str, more: str) -> str | None:
        bootstrap = self.observation.bootstrap
        if bootstrap is None:
            return None
        place = f"--topic {self.subject.topic} --partition {self.subject.partition}"
        return f"kafka-transactions.sh --bootstrap-server {bootstrap} {action} {place}{more}"

    @property
    def contradiction(self) -> Contradiction | None:
        """Returns the contradiction between two readings that makes the decision unknown; None if the decision is
        known, or is unknown for another reason."""
        reason = self.observation.reason
        decided_by = reason.decided_by if isinstance(reason, HangReason) else None
        return decided_by if isinstance(decided_by, Contradiction) else None

    @property
    def is_open(self) -> bool:
        return self.status != Status.RESOLVED

    def with_observed(self, **fields: Any) -> Finding:
        """Returns the finding with these fields of its observation replaced."""
        return replace(self, observation=self.observation._replace(**fields))


Key = tuple[Kind, Subject]
"""The kind and the subject of a finding. Together they identify the newest episode of the finding."""


class RoundResult(NamedTuple):
    """The result of one judge round. A finding that the round could have observed, and did not, has ended.

    - `kinds`: the kinds that the round judges. Of these kinds, a finding that depends on one log partition is judged if
      that partition is in `partitions`; any other finding is judged if `is_log_complete` (everything that it may depend
      on is read).
    - `ids`: if not None, the round judges only findings about these ids.
    - `resolutions`: if given, exactly the findings about these subjects have ended, in these ways.
    - `unsettled`: findings with events that cannot be reported yet (see `settling`); these have not ended.
    - `unread`: a mapping from kind to the number of cases that were not read because a bound was reached. If a kind is
      absent, its number from an earlier round stays valid.
    """

    observations: tuple[Observation, ...]
    kinds: frozenset[Kind]
    partitions: frozenset[int] = frozenset()
    is_log_complete: bool = False
    ids: frozenset[bytes] | None = None
    resolutions: Mapping[Subject, Resolution] | None = None
    unsettled: frozenset[Key] = frozenset()
    unread: Mapping[Kind, int] = MappingProxyType({})

    def judges(self, finding: Finding) -> bool:
        if finding.kind not in self.kinds or (finding.kind, finding.subject) in self.unsettled:
            return False
        if self.resolutions is not None:
            return finding.subject in self.resolutions
        return self.covers(finding.subject, finding.observation.log_partition)

    def covers(self, subject: Subject, log_partition: int | None) -> bool:
        if self.ids is not None and subject.transactional_id not in self.ids:
            return False
        return self.is_log_complete if log_partition is None else log_partition in self.partitions
