"""Finds the transaction that wrote records if that transaction's marker is missing on the partition: lost with a
leader, skipped, cleaned away, or not written yet. Pure.

A marker ends everything that its producer id wrote before. So if the marker of a transaction is missing, a later marker
ends its records, with the outcome of another transaction. The transaction log proves which transactions listed the
partition, in which order, and under which epoch their clients wrote. Times only limit which markers may be those of a
decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from service.domain.partitions.facts import BatchOffsets, MarkerType
from service.domain.partitions.marker_causes import CLOCKS_MS, MarkerCause
from service.domain.partitions.offset_spans import BatchesBefore, Span, SpanKind
from service.domain.transaction_log.causes import Cause, Confidence


class LoggedTransaction(NamedTuple):
    """A transaction of a producer id, as the transaction log shows it.

    - `marker`: COMMIT or ABORT; None while it is not decided.
    - `marker_epoch`: epoch of its markers. `data_epoch`: epoch under which its client wrote; None if not known.
    - `decided_ms`, `until_ms`: its markers were written between these times, by the coordinator's clock; `until_ms`
      None: the log does not show that they are all written.
    - `lists_partition`: whether the partition in question is among its participants; None if not known.
    - `has_own_epoch`: the transaction began and ended under TV2, which raises the epoch at each end; so no other
      transaction of the producer id has its data epoch.
    """

    marker: MarkerType | None
    marker_epoch: int
    data_epoch: int | None
    decided_ms: int
    until_ms: int | None
    lists_partition: bool | None
    cause: Cause | None = None
    has_own_epoch: bool = False


class _Marker(NamedTuple):
    marker: MarkerType | None
    epoch: int
    at_ms: int


class OwnDecision(NamedTuple):
    """The decision about the transaction that wrote some records, if its marker is missing on the partition. `marker`:
    COMMIT, ABORT, or None if its outcome is not known. `decided_ms`, `cause`: None if not known.

    `confidence`: CERTAIN if the epoch proves that the records are of that transaction; LIKELY if only transactions with
    this outcome can have written them; AMBIGUOUS in all other cases. `may_be_other`: some or all of the records may be
    of another transaction: the one whose marker ended them, an open one, or one that the log does not show any more."""

    marker: MarkerType | None
    decided_ms: int | None
    cause: Cause | None
    confidence: Confidence
    may_be_other: bool = False

    def cause_of(self, of_marker: MarkerCause | None) -> MarkerCause | None:
        """Returns the cause to report for the records: the cause of this decision, or, if `may_be_other`, `of_marker`
        with a confidence of at most LIKELY. `of_marker`: the cause of the marker that ended the records."""
        if not self.may_be_other:
            return None if self.cause is None else MarkerCause(self.cause)
        if of_marker is None or of_marker.cause.confidence != Confidence.CERTAIN:
            return of_marker
        return of_marker._replace(cause=of_marker.cause._replace(confidence=Confidence.LIKELY))


def decision_text(
    marker: MarkerType | None, confidence: Confidence, *, may_be_other: bool, ended_by: str | None
) -> str:
    """Returns sentences about records whose transaction was decided and has no marker on their partition. `ended_by`:
    the marker of another transaction that ended the records, like `ABORT at 6`; None if no marker did."""
    decided = "decided (whether COMMIT or ABORT is not known)" if marker is None else f"decided {marker}"
    if may_be_other and ended_by is None:
        return (
            f"These records, or some of them, may belong to a transaction of the producer id that was {decided} and"
            " whose marker is missing here (lost or skipped, cleaned away, or not written yet)."
        )
    if may_be_other:
        return (
            f"The marker ({ended_by}) may cover two transactions of the same producer id: an earlier transaction that"
            f" lists this partition was {decided}, and its marker is missing here. Which records belong to which"
            " transaction is not known."
        )
    sure = "" if confidence == Confidence.CERTAIN else "likely " if confidence == Confidence.LIKELY else "perhaps "
    if ended_by is None:
        return (
            f"The transaction of these records is {sure}{decided}, and its marker is missing here (lost or skipped,"
            " cleaned away, or not written yet)."
        )
    return (
        f"The transaction of these records was {sure}{decided}, and its marker is missing here. The marker of a later"
        f" transaction of the same producer id ({ended_by}) ended them, with its own outcome."
    )


def own_decisions(
    spans: Sequence[Span],
    transactions: Sequence[LoggedTransaction],
    before: BatchesBefore,
    producer_id: int,
    *,
    is_whole: bool,
) -> dict[int, OwnDecision]:
    """Returns the decisions about those records of the producer id that have no marker of their own, keyed by the first
    offset of the records' span.

    `spans`: the spans of all producers, in order; `before`: the batches in front of the spans. `transactions`: the
    transactions of the producer id, in the order of the log; an undecided transaction comes last. `is_whole`: the
    partition's log was read until every marker was found, or to its end."""
    possible = [transaction for transaction in transactions if transaction.lists_partition is not False]
    if not possible:
        return {}
    earlier = before.markers.get(producer_id)
    markers = _markers(spans, earlier, producer_id)
    matched = _Matched(markers, possible)
    number = 0 if earlier is None else 1
    sees_all = before.is_from_start or earlier is not None
    found = {}
    for span in spans:
        if span.producer_id is None and span.kind in (SpanKind.GAP, SpanKind.UNKNOWN):
            sees_all = False  # a marker may have been there
        elif span.producer_id != producer_id:
            continue
        elif span.kind == SpanKind.MARKER:
            number, sees_all = number + 1, True
        elif span.kind in (SpanKind.COMMITTED, SpanKind.ABORTED) or (
            span.kind in (SpanKind.OPEN, SpanKind.UNKNOWN) and span.marker_offset is None
        ):
            has_marker = span.marker_offset is not None
            if not has_marker and not is_whole:
                continue  # its marker may lie where nothing was read
            of_marker = matched.transaction(number) if has_marker else None
            candidates = [
                transaction
                for transaction in matched.without_marker(number, before_it=has_marker)
                if _may_hold(transaction, span, of_marker) and (sees_all or transaction.has_own_epoch)
            ]
            decision = _decision(span, candidates, of_marker)
            if decision is not None:
                found[span.first] = decision
    return found


class LostCommit(NamedTuple):
    """A finding about records of the producer id from `start_offset` on: their transaction was committed, its marker is
    missing, and a later marker has ended the records, or will end them."""

    producer_id: int
    start_offset: int


def decisions_of_findings(spans: Sequence[Span], findings: Iterable[LostCommit]) -> dict[int, OwnDecision]:
    """Returns a mapping from the first offset of a span to the decision that a finding reports about the span. The
    spans of a finding are those of its producer id from the finding's first record up to the marker that ended the
    records, if there is such a marker yet."""
    found = {}
    for finding in findings:
        its = [
            s
            for s in spans
            if s.producer_id == finding.producer_id and s.next > finding.start_offset and s.kind != SpanKind.MARKER
        ]
        until = min((s.marker_offset for s in its if s.marker_offset is not None), default=None)
        for span in its:
            if span.marker_offset == until and span.kind in (SpanKind.ABORTED, SpanKind.OPEN, SpanKind.UNKNOWN):
                found[span.first] = OwnDecision(MarkerType.COMMIT, None, None, Confidence.AMBIGUOUS, may_be_other=True)
    return found


def _markers(spans: Sequence[Span], earlier: BatchOffsets | None, producer_id: int) -> list[_Marker]:
    """Returns the markers of the producer id, in order: `earlier`, the spans that are markers, and a marker behind the
    spans if it ended one of them."""
    found = {} if earlier is None else {-1: _Marker(earlier.marker, earlier.producer_epoch, earlier.timestamp_ms)}
    for span in spans:
        if span.producer_id == producer_id and span.marker_offset is not None and span.ended_ms is not None:
            found[span.marker_offset] = _Marker(span.marker, span.marker_epoch or 0, span.ended_ms)
    return [found[at] for at in sorted(found)]


def _may_hold(transaction: LoggedTransaction, span: Span, of_marker: LoggedTransaction | None) -> bool:
    """Returns whether the records may be of the transaction, by its epoch, its times and its participants.

    Returns False if the records are more than CLOCKS_MS younger than the decision: the topic may have been created
    again since. If the marker that ended the records fits no known decision, returns True only for a transaction that
    was decided CLOCKS_MS or more before this marker."""
    if span.ended_ms is not None and of_marker is None and transaction.decided_ms > span.ended_ms - CLOCKS_MS:
        return False
    is_later = transaction.marker is not None and span.first_ms > transaction.decided_ms + CLOCKS_MS
    is_known = transaction.lists_partition is not None or span.marker_offset is None
    epoch = -1 if span.producer_epoch is None else span.producer_epoch
    is_its_epoch = (
        epoch <= transaction.marker_epoch if transaction.data_epoch is None else epoch == transaction.data_epoch
    )
    return is_its_epoch and is_known and not is_later


def _decision(
    span: Span, candidates: Sequence[LoggedTransaction], of_marker: LoggedTransaction | None
) -> OwnDecision | None:
    decided = [candidate for candidate in candidates if candidate.marker is not None]
    if not decided:
        return None
    if span.marker_offset is None:
        may_be_other = len(decided) < len(candidates)
    else:
        may_be_other = of_marker is not None and of_marker.data_epoch in (None, span.producer_epoch)
    outcomes = {transaction.marker for transaction in decided}
    marker = decided[0].marker if len(outcomes) == 1 else None
    may_be_other = may_be_other or any(transaction.data_epoch is None for transaction in decided)
    if may_be_other or marker is None or any(transaction.lists_partition is None for transaction in decided):
        confidence = Confidence.AMBIGUOUS
    else:
        confidence = Confidence.CERTAIN if len(candidates) == 1 and decided[0].has_own_epoch else Confidence.LIKELY
    if len(decided) > 1:
        return OwnDecision(marker, None, None, confidence, may_be_other)
    return OwnDecision(marker, decided[0].decided_ms, decided[0].cause, confidence, may_be_other)


class _Matched:
    """Matches markers with the transactions that they may belong to, twice. Forwards, from the first marker on, each
    marker takes the first transaction that fits behind those already taken. Backwards, from the last marker on, each
    marker takes the last transaction that fits in front of those already taken. Where the results differ, it is not
    known which transaction lacks its marker."""

    def __init__(self, markers: Sequence[_Marker], transactions: Sequence[LoggedTransaction]) -> None:
        self._transactions = transactions
        indexes = range(len(transactions))
        self._first = _in_order(markers, indexes, transactions)
        self._last = _in_order(markers[::-1], indexes[::-1], transactions)[::-1]
        self._taken = {*self._first, *self._last}

    def transaction(self, number: int) -> LoggedTransaction | None:
        """Returns the transaction of marker `number`; None if matching forwards and backwards gives different
        transactions, or if no transaction fits."""
        at = self._first[number]
        return None if at is None or at != self._last[number] else self._transactions[at]

    def without_marker(self, number: int, *, before_it: bool) -> list[LoggedTransaction]:
        """Returns the transactions that have no marker and are later than each transaction of a marker before marker
        `number`. If `before_it`, these transactions are also earlier than each transaction of marker `number` or of a
        later marker."""
        lo = max((at + 1 for one in (self._first, self._last) for at in one[:number] if at is not None), default=0)
        hi = len(self._transactions)
        if before_it:
            hi = min((at for one in (self._first, self._last) for at in one[number:] if at is not None), default=hi)
        return [self._transactions[at] for at in range(lo, hi) if at not in self._taken]


def _in_order(
    markers: Sequence[_Marker], indexes: Sequence[int], transactions: Sequence[LoggedTransaction]
) -> list[int | None]:
    found: list[int | None] = []
    begin = 0
    for marker in markers:
        at = next((at for at in range(begin, len(indexes)) if _fits(marker, transactions[indexes[at]])), None)
        found.append(None if at is None else indexes[at])
        begin = begin if at is None else at + 1
    return found


def _fits(marker: _Marker, transaction: LoggedTransaction) -> bool:
    if marker.marker is None:  # emptied by compaction
        return transaction.marker is not None and transaction.marker_epoch == marker.epoch
    is_late = transaction.until_ms is not None and marker.at_ms > transaction.until_ms + CLOCKS_MS
    is_in_time = transaction.decided_ms - CLOCKS_MS <= marker.at_ms and not is_late
    return transaction.marker == marker.marker and transaction.marker_epoch == marker.epoch and is_in_time
