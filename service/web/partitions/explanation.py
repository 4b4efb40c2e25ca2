"""Explains a record in sentences, for people: its owner and its outcome, from what REST's explain returns."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from service.api.http.fields import text_of_time
from service.domain.partitions.marker_causes import BY_HAND_TEXT
from service.domain.partitions.offset_spans import SpanKind
from service.domain.partitions.own_transactions import decision_text
from service.domain.transaction_log.abort_explanation import why_ended
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.store.escaped_text import display_id
from service.views.addresses import transaction_page
from service.views.partitions.offsets import ExplainedOffsets, ExplainedSpan
from service.views.words import Word, word_of

SPANS_SHOWN: Final = 200

_HEADS: Final = {
    SpanKind.COMMITTED: "Committed.",
    SpanKind.ABORTED: "Aborted.",
    SpanKind.OPEN: "Still open.",
    SpanKind.HANGING: "Hanging.",
    SpanKind.NON_TRANSACTIONAL: "Written without a transaction.",
    SpanKind.MARKER: "A marker.",
    SpanKind.GAP: "Not in the log.",
    SpanKind.UNKNOWN: "Unknown.",
}
_READERS: Final = {
    SpanKind.COMMITTED: "read_committed consumers get it once the LSO has passed it.",
    SpanKind.ABORTED: "read_committed consumers skip it.",
    SpanKind.OPEN: "read_committed consumers get nothing from here on until its transaction ends.",
    SpanKind.HANGING: "read_committed consumers get nothing from here on: no coordinator will ever end it.",
    SpanKind.NON_TRANSACTIONAL: "read_committed consumers get it once the LSO has passed it.",
    SpanKind.MARKER: "It ends a transaction and uses an offset; no consumer ever gets it.",
    SpanKind.GAP: (
        "The log has no record at this offset (any more): compaction or retention removed it, or there never was one."
    ),
    SpanKind.UNKNOWN: "It could not be read, or what ended its transaction was not found.",
}
_ENDS_NOTHING: Final = (
    "It ends nothing: its producer id had no record open here, as at the head of a topic that was created again inside"
    " a transaction. No consumer ever gets it."
)
_TONES: Final = {
    SpanKind.HANGING: "critical",
    SpanKind.OPEN: "info",
    SpanKind.UNKNOWN: "unknown",
    SpanKind.GAP: "unknown",
}
_ICONS: Final = {SpanKind.OPEN: "open"}
_BY_HAND: Final = word_of(CauseCode.ADMIN)._replace(text="a marker by hand")


class Told(NamedTuple):
    """The explanation of offsets `first` to `last`. `who`, `href`: of the transactional id, None if it is unknown.
    `cause`: as a letter and words. `decided`: what was decided about its own transaction, if that has no marker.
    `cause`, `confidence`, `why`, `decided` and `marker` (COMMIT or ABORT) are None if there is none."""

    first: int
    last: int
    kind: str
    head: str
    readers: str
    tone: str
    icon: str
    who: str | None
    href: str | None
    producer_id: int | None
    producer_epoch: int | None
    marker: str | None
    marker_offset: int | None
    ended_at: str | None
    cause: Word | None
    confidence: Confidence | None
    why: str | None
    decided: str | None

    @property
    def is_one(self) -> bool:
        return self.first == self.last


class Explanation(NamedTuple):
    """The answer to a question about offsets. `offset`, `to` (exclusive): as asked for. `problem`: one sentence on why
    there is no answer; else None. `truncated_at`: offset at which the spans end. `more`: number of spans that are not
    shown. `only_aborted`: the run of aborted records, one sentence; None if there is none."""

    offset: int | None
    to: int | None
    spans: tuple[Told, ...] = ()
    truncated_at: int | None = None
    as_of_ms: int | None = None
    problem: str | None = None
    more: int = 0
    only_aborted: str | None = None


def explanation_of(offset: int, to: int, explained: ExplainedOffsets, cluster: str) -> Explanation:
    spans = tuple(_told(one, cluster) for one in explained.spans[:SPANS_SHOWN])
    more = max(len(explained.spans) - SPANS_SHOWN, 0)
    run = None if explained.only_aborted is None else explained.only_aborted.text
    return Explanation(offset, to, spans, explained.truncated_at, explained.as_of_ms, None, more, run)


def _told(one: ExplainedSpan, cluster: str) -> Told:
    span, ending = one.span, one.ending
    cause = None if ending is None else ending.cause
    by_hand = ending is not None and ending.by_hand
    return Told(
        first=span.first,
        last=span.next - 1,
        kind=span.kind,
        head=_HEADS[span.kind],
        readers=_ENDS_NOTHING if span.ends_nothing else _READERS[span.kind],
        tone=_TONES.get(span.kind, "quiet"),
        icon=_ICONS.get(span.kind, _TONES.get(span.kind, "")),
        who=None if one.owner is None else display_id(one.owner),
        href=None if one.owner is None else transaction_page(cluster, one.owner),
        producer_id=span.producer_id,
        producer_epoch=span.producer_epoch,
        marker=span.marker,
        marker_offset=span.marker_offset,
        ended_at=text_of_time(span.ended_ms),
        cause=_BY_HAND if by_hand else None if cause is None else word_of(cause.code),
        confidence=None if cause is None else cause.confidence,
        why=_why(one),
        decided=_decided(one),
    )


def _why(one: ExplainedSpan) -> str | None:
    if one.ending is None:
        return None
    if one.ending.by_hand:
        return BY_HAND_TEXT
    if one.own is not None and not one.own.may_be_other:
        return None  # the cause is that of another outcome
    return why_ended(one.ending.cause.code, one.ending.cause.confidence)


def _decided(one: ExplainedSpan) -> str | None:
    if (own := one.own) is None:
        return None
    ended_by = None if one.span.marker_offset is None else f"{one.span.marker} at {one.span.marker_offset:,}"
    return decision_text(own.marker, own.confidence, may_be_other=own.may_be_other, ended_by=ended_by)


LAST: Final = 2**63 - 1

_NUMBER: Final = re.compile(r"[0-9]{1,3}(?:[, _][0-9]{3})+|[0-9]{1,19}", re.ASCII)


class Asked(NamedTuple):
    """The offsets [offset, to) that were asked for. `mistake`: what is wrong with them, one sentence."""

    offset: int | None = None
    to: int | None = None
    mistake: str | None = None


def asked(offset: str, to: str) -> Asked:
    """Parses the offsets that were typed. Nothing is asked for if both are empty; `offset` without `to` means one
    record."""
    offset, to = offset.strip(), to.strip()
    if not offset:
        return Asked(mistake="Type the first offset.") if to else Asked()
    first = _number(offset)
    if first is None or first >= LAST:
        return Asked(mistake=f"{offset[:40]!r} is no offset: type a number, 0 or above.")
    if not to:
        return Asked(first, first + 1)
    end = _number(to)
    if end is None or not first < end <= LAST:
        return Asked(first, None, f"{to[:40]!r} is no end: type a number above the offset.")
    return Asked(first, end)


def _number(text: str) -> int | None:
    return int(re.sub("[, _]", "", text)) if _NUMBER.fullmatch(text) else None
