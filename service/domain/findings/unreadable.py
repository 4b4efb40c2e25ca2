"""Findings about data that could not be read: records that cannot be decoded, offsets that are gone, sources that
fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from service.domain.findings.conditions import bounded
from service.domain.findings.context import Context
from service.domain.findings.finding import Evidence, Facts, Observation, Occurrence, SharedFacts, Subject, Words
from service.domain.findings.formatting import Names, names_of, partitions_of, utc
from service.domain.findings.kinds import Kind, Severity
from service.domain.partitions.facts import LogPlace
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import READ, NoPermission, is_denied, is_log_absent, missing_permissions
from service.domain.transaction_log.states import TOPIC

GAP_AFTER_MS: Final = 30_000
"""Time for which a source may fail before the failure counts as a coverage gap: the time that a broker may need to
restart."""

_REASONS: Final = {
    "retention": ("were deleted before they were read", "records were deleted before they were read"),
    "recreated": (
        "belong to a topic that was created again; the new topic is read from its start",
        "the topic was created again",
    ),
    "diverged": (
        "no longer match what had been read; the log is read again",
        "the log no longer matches what had been read",
    ),
    "cleaned": (
        "held {missing} records that compaction removed before they were read",
        "compaction removed records before they were read",
    ),
    "away": (
        "were last read too long ago, or the store was made anew: removed ids may have been missed, and the log is"
        " read again",
        "the log is read again, because the last read was too long ago or the store was made anew",
    ),
}
"""Maps the reason of a gap (`transaction_log.facts.Gap`) to two texts: about its offsets, and about its partition."""


def what_happened(reason: str, missing: int | None) -> str:
    """Returns the text about offsets whose records could not be read as they were written. `reason`: as in
    `transaction_log.facts.Gap`; any other text is returned as it is."""
    text, _ = _REASONS.get(reason, (reason, ""))
    return text.format(missing=missing)


class Undecoded(NamedTuple):
    """Undecodable data of one log partition. `names`: the ids whose newest record cannot be decoded. `rejects`: the
    undecodable records of the last minutes, and also older ones if `names` is not empty."""

    partition: int
    names: tuple[str, ...]
    rejects: tuple[tuple[int, int, str], ...]
    """One tuple for each undecodable record: its offset, the time (ms) at which it was seen, and the reason."""


class DataGap(NamedTuple):
    """A row of the table `data_gaps`: offsets whose records could not be read as they were written."""

    sequence: int
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    reason: str
    seen_at_ms: int
    missing: int | None = None


class SourceReport(NamedTuple):
    """The newest report of a source: its last success (None: never), and its error if it fails now. `topic` None: the
    source reads several topics."""

    source: str
    topic: str | None
    as_of_ms: int | None
    error: Reason | None
    failing_since_ms: int | None


@dataclass(frozen=True, slots=True)
class UndecodableFacts(Facts):
    """The ids whose newest record cannot be decoded."""

    names: Names

    def words(self, about: Observation, /) -> Words:
        what = f"the newest record of {self.names}" if self.names.count else "records"
        return Words(
            f"{TOPIC}-{about.subject.partition}: {what} cannot be decoded",
            "An id's state is known again with its next record. Possible causes: a foreign client wrote to the"
            " topic, or the brokers are newer than this txnscope. A coordinator older than 4.3 that loads such a record"
            " drops all later ids of the partition: do not restart such a broker before the cause is known.",
            "the state of these ids is unknown" if self.names.count else "",
        )


def undecodable(found: Iterable[Undecoded], context: Context) -> list[Observation]:
    """Returns an observation for each partition of the log that has undecodable records and can be judged now."""
    return [
        Observation(
            kind=Kind.UNDECODABLE,
            severity=Severity.WARNING,
            subject=Subject(topic=TOPIC, partition=undecoded.partition),
            facts=UndecodableFacts(names_of(undecoded.names)),
            evidence=tuple(
                Evidence(at_ms, LogPlace(TOPIC, undecoded.partition, at), why) for at, at_ms, why in undecoded.rejects
            ),
            log_partition=undecoded.partition,
            ids=max(len(undecoded.names), len(undecoded.rejects)),
        )
        for undecoded in found
        if (undecoded.names or undecoded.rejects) and undecoded.partition in context.log.known_until_ms
    ]


@dataclass(frozen=True, slots=True)
class DataGapFacts(Facts):
    """The reasons of a partition's gaps, each once, as in `transaction_log.facts.Gap`. The evidence contains the
    missing offsets."""

    gap_reasons: tuple[str, ...]

    def words(self, about: Observation, /) -> Words:
        topic, partition, *_ = about.subject
        known = [text for reason, (_, text) in _REASONS.items() if reason in self.gap_reasons]
        what = "; ".join(known) or "the log could not be read as it was written"
        if self.gap_reasons == ("away",):
            advice = (
                "Records that compaction removed since the last read may have been missed: counts and history of this"
                " partition's ids may be incomplete."
            )
        else:
            advice = "Reading went on after the gap. " + (
                "Counts and history of this partition's ids are incomplete for the gap."
                if topic == TOPIC
                else "The counted volume and markers of this partition are incomplete for the gap."
            )
        return Words(f"{topic}-{partition}: {what}", advice)


def data_gaps(gaps: Iterable[DataGap]) -> list[Observation]:
    """Returns an observation for each partition with gaps."""
    by_partition: dict[tuple[str, int], list[DataGap]] = {}
    for gap in sorted(gaps):
        by_partition.setdefault((gap.topic, gap.partition), []).append(gap)
    return [_data_gap(topic, partition, seen) for (topic, partition), seen in sorted(by_partition.items())]


def _data_gap(topic: str, partition: int, gaps: list[DataGap]) -> Observation:
    return Observation(
        kind=Kind.DATA_GAP,
        severity=Severity.WARNING,
        subject=Subject(topic=topic, partition=partition),
        facts=DataGapFacts(tuple(sorted({gap.reason for gap in gaps}))),
        evidence=tuple(
            Evidence(
                gap.seen_at_ms,
                LogPlace(topic, partition, gap.from_offset),
                f"offsets {gap.from_offset} to {gap.to_offset} {what_happened(gap.reason, gap.missing)}",
            )
            for gap in gaps
        ),
        occurrences=tuple(Occurrence(gap.sequence, gap.seen_at_ms) for gap in gaps),
    )


def coverage_gaps(sources: Iterable[SourceReport], now_ms: int) -> list[Observation]:
    """Returns observations of sources that have failed for GAP_AFTER_MS. Verdicts that depend on such a source wait. A
    source also counts as failed if its last success lies GAP_AFTER_MS or more after `now_ms`, which means that the
    clock was set back. A missing transaction log is not reported, because nothing can close such a gap."""
    gaps = []
    for source in sources:
        if source.as_of_ms is not None and source.as_of_ms - now_ms >= GAP_AFTER_MS:
            gaps.append(_coverage_gap(source, source.as_of_ms, None))
        elif source.error is None or source.failing_since_ms is None or is_log_absent(source.error):
            continue
        elif now_ms - source.failing_since_ms >= GAP_AFTER_MS:
            gaps.append(_coverage_gap(source, source.failing_since_ms, source.error))
    return gaps


@dataclass(frozen=True, slots=True)
class SourceUnreadFacts(Facts):
    """A source that fails. The reason of the observation is the cause of the failure. If the observation has no reason,
    the clock was set back: every observation then counts as old until the clock reaches `clock_until_ms` again."""

    clock_until_ms: int | None

    def why(self, reason: Reason | None) -> str:
        if self.clock_until_ms is None:
            return str(reason)
        until = utc(self.clock_until_ms)
        return f"the clock was set back: until it reaches {until} again, every observation counts as old"

    def words(self, about: Observation, /) -> Words:
        return Words(
            f"{about.subject.topic or 'data partitions'} cannot be read: {self.why(about.reason)}",
            "Verdicts that depend on this source wait until it can be read again. Until then, the data shown are those"
            f" of the last read. {self._what_helps(about.reason)}",
        )

    def _what_helps(self, reason: Reason | None) -> str:
        if self.clock_until_ms is not None:
            return "Check the clocks of txnscope's hosts."
        if is_denied(reason):
            return "Grant the permission to txnscope's principal: `txnscope doctor` prints the command."
        return "Check the brokers."


def _coverage_gap(source_report: SourceReport, since_ms: int, error: Reason | None) -> Observation:
    facts = SourceUnreadFacts(since_ms if error is None else None)
    return Observation(
        kind=Kind.COVERAGE_GAP,
        severity=Severity.WARNING,
        subject=Subject(topic=source_report.topic),
        facts=facts,
        evidence=(Evidence(since_ms, "txnscope", facts.why(error)),),
        reason=error,
    )


class NotJudged(NamedTuple):
    """A stalled partition. `why`: the reason why it cannot be judged; None if it can be judged, or if the missing facts
    may still arrive."""

    topic: str
    partition: int
    stalled_since_ms: int | None
    why: Reason | None


@dataclass(frozen=True, slots=True)
class TopicUnreadFacts(SharedFacts):
    """Stalled partitions of a topic that txnscope has no permission to read."""

    topic: str
    partitions: Names

    def words(self, _: Observation, /) -> Words:
        return Words(
            f"no permission (READ) to read {self.rest('topic', 'topics')} with stalled partitions"
            if self.more
            else f"{self.partitions}: the LSO is stalled, and the transaction that holds it is not known: no permission"
            " to read the topic",
            "Kafka requires READ on the topic to list the producers with open transactions: grant it to txnscope's"
            f" principal. `txnscope doctor --topics {self.topic}` prints the command.",
        )


def unreadable_topics(found: Iterable[NotJudged]) -> list[Observation]:
    """Returns an observation for each topic that has stalled partitions and that txnscope has no permission to read.
    Partitions that cannot be judged for another reason are left out."""
    denied = sorted(
        (judged for judged in found if _is_denied(judged)), key=lambda judged: (judged.topic, judged.partition)
    )
    topics = [list(of_topic) for _, of_topic in groupby(denied, key=lambda judged: judged.topic)]
    return bounded(topics, _observe)


def _is_denied(judged: NotJudged) -> bool:
    """Returns whether a permission on the topic itself is missing. A missing permission on the transaction log does not
    count."""
    return any(missing.topic == judged.topic for missing in missing_permissions(judged.why))


def _observe(denied: list[NotJudged]) -> Observation:
    topic, _, since_ms, why = denied[0]
    return Observation(
        kind=Kind.COVERAGE_GAP,
        severity=Severity.WARNING,
        subject=Subject(topic=topic),
        facts=TopicUnreadFacts(topic, partitions_of([(topic, judged.partition) for judged in denied])),
        evidence=() if since_ms is None else (Evidence(since_ms, f"{topic}-{denied[0].partition}", str(why)),),
        reason=NoPermission(topic, (READ,)),
    )
