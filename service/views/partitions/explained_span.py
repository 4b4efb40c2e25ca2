"""Explains neighbouring offsets of one kind in sentences: their owner, their outcome and its cause."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.partitions.marker_causes import BY_HAND_TEXT, MarkerCause
from service.domain.partitions.offset_spans import Span, SpanKind
from service.domain.partitions.own_transactions import OwnDecision, decision_text
from service.domain.transaction_log.abort_explanation import why_ended
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.states import is_time
from service.views.words import Word, word_of


class _Words(NamedTuple):
    """The words for a kind of span. `head`: the outcome of the span; `readers`: whether read_committed consumers get
    the records; `icon`: "" if the tone has no icon."""

    head: str
    readers: str
    tone: str = "quiet"
    icon: str = ""


_LATER: Final = "read_committed consumers get the record once the LSO has passed it."
_NOTHING: Final = "read_committed consumers get nothing from here on"
_WORDS: Final = {
    SpanKind.COMMITTED: _Words("Committed.", _LATER),
    SpanKind.ABORTED: _Words("Aborted.", "read_committed consumers skip it."),
    SpanKind.OPEN: _Words("Still open.", f"{_NOTHING} until its transaction ends.", "info", "open"),
    SpanKind.HANGING: _Words(
        "Hanging.", f"{_NOTHING}: no coordinator is set to end its transaction.", "critical", "critical"
    ),
    SpanKind.NON_TRANSACTIONAL: _Words("Written without a transaction.", _LATER),
    SpanKind.MARKER: _Words(
        "A marker.", "A marker ends a transaction and uses an offset; no consumer ever gets a marker."
    ),
    SpanKind.GAP: _Words(
        "Not in the log.",
        "The log has no record at this offset: compaction or retention removed it, or there never was one.",
        "unknown",
        "unknown",
    ),
    SpanKind.UNKNOWN: _Words(
        "Unknown.", "The record could not be read, or the end of its transaction was not found.", "unknown", "unknown"
    ),
}
_ENDS_NOTHING: Final = (
    "This marker ends nothing: its producer id had no open transaction here, for example because the topic was deleted"
    " and created again during the transaction. No consumer ever gets it."
)
_BY_HAND: Final = word_of(CauseCode.ADMIN)._replace(text="a marker by hand")


def readers_of(kind: SpanKind, *, ends_nothing: bool) -> str:
    """Returns a sentence on whether read_committed consumers get the records of a span. `ends_nothing`: True for a
    marker that ends no transaction."""
    return _ENDS_NOTHING if ends_nothing else _WORDS[kind].readers


class ExplainedSpan(NamedTuple):
    """Neighbouring offsets of the same kind and the same transaction.

    - `owner`: the transactional.id that had the span's producer id when the span ended; None if it is not known.
    - `ending`: the cause of the span's end; None if the cause is not known.
    - `own`: the coordinator's decision about the transaction that wrote the span; None if the partition has the marker
      of that decision, or the decision is not known.
    """

    span: Span
    owner: bytes | None = None
    ending: MarkerCause | None = None
    own: OwnDecision | None = None

    @staticmethod
    def of(span: Span, owner: bytes | None, marker: MarkerCause | None, own: OwnDecision | None) -> ExplainedSpan:
        """Returns the explanation of the span. `marker`: why the marker that ends the span was written; None if that is
        not known. `own`: as in the class."""
        return ExplainedSpan(span, owner, marker if own is None else own.cause_of(marker), own)

    @property
    def head(self) -> str:
        return _WORDS[self.span.kind].head

    @property
    def readers(self) -> str:
        """Returns a sentence on whether read_committed consumers get the records."""
        return readers_of(self.span.kind, ends_nothing=self.span.ends_nothing)

    @property
    def pill(self) -> tuple[str, str, str]:
        """Returns the tone, the text and the icon of the outcome; the icon is "" if the tone has no icon."""
        of_kind = _WORDS[self.span.kind]
        return of_kind.tone, of_kind.head.replace(".", "").lower(), of_kind.icon

    @property
    def cause_word(self) -> Word | None:
        """Returns the cause of the span's end, as pages show it; None if the cause is not known."""
        if self.ending is None:
            return None
        return _BY_HAND if self.ending.by_hand else word_of(self.ending.cause.code)

    @property
    def ended_ms(self) -> int | None:
        return self.span.ended_ms if is_time(self.span.ended_ms) else None

    @property
    def why(self) -> str | None:
        if self.ending is None:
            return None
        if self.ending.by_hand:
            return BY_HAND_TEXT
        if self.own is not None and not self.own.may_be_other:
            return None  # the cause is that of another outcome
        return why_ended(self.ending.cause.code, self.ending.cause.confidence)

    @property
    def decided(self) -> str | None:
        """Returns a sentence about the coordinator's decision on the transaction that wrote the span. Returns None if
        that decision is not known, or if the partition has the marker of that decision."""
        if (own := self.own) is None:
            return None
        ended_by = None if self.span.marker_offset is None else f"{self.span.marker} at {self.span.marker_offset:,}"
        return decision_text(own.marker, own.confidence, may_be_other=own.may_be_other, ended_by=ended_by)
