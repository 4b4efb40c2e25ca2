"""The bodies that explain a partition's offsets, for the service and for `txnscope explain --segments`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.api.http.fields import id_fields, text_of_time, transaction_link
from service.api.schemas.history import CauseWord, ConfidenceWord
from service.api.schemas.shape import IdBytes, OneOf, RawTime, Shape, Time, Wide, moment, shaped
from service.domain.partitions.aborted_run import EndOfRun
from service.domain.partitions.facts import MarkerType
from service.domain.partitions.offset_spans import SpanKind
from service.domain.partitions.own_transactions import OwnDecision
from service.views.partitions.explained_span import ExplainedSpan
from service.views.partitions.offsets import ExplainedOffsets, ExplainedRun, RunOwner

SpanWord = Annotated[SpanKind, OneOf(*SpanKind)]
MarkerWord = Annotated[MarkerType, OneOf(*MarkerType)]


class DecisionWithoutMarker(Shape):
    """The coordinator's decision about the transaction that wrote the span, if the transaction's marker is missing on
    the partition: lost with a leader, skipped, cleaned away, or not written yet."""

    marker: Annotated[MarkerWord | None, Field(description="The outcome; null if it is not known.")]
    at: Annotated[Time | None, Field(description="Time of the decision, by the coordinator's clock.")]
    confidence: Annotated[
        ConfidenceWord, Field(description="How certain it is that the records belong to the decided transaction.")
    ]
    may_be_other: Annotated[
        bool,
        Field(
            description="True if some or all of the records may belong to another transaction: the transaction whose"
            " marker ended them, an open transaction, or a transaction that the transaction log no longer contains."
        ),
    ]

    @staticmethod
    def of(own: OwnDecision) -> DecisionWithoutMarker:
        return shaped(DecisionWithoutMarker, own, at=text_of_time(own.decided_ms))


class LogSpan(Shape):
    """Adjacent offsets of one kind and one transaction, as segment files alone show them."""

    from_: Annotated[int, Field(alias="from", description="The first offset.")]
    to: Annotated[int, Field(description="The first offset after the span.")]
    kind: Annotated[
        SpanWord,
        Field(
            description="marker: a control record that ends a transaction. gap: the log has no records at these"
            " offsets. hanging: records of an open transaction that no coordinator is set to end. unknown: not"
            " readable, or the marker was not found."
        ),
    ]
    producer_id: Wide | None
    producer_epoch: int | None
    transactional_id: Annotated[
        str | None, Field(description="The id that had the producer id at that time; null if unknown.")
    ]
    transactional_id_b64: IdBytes
    marker: Annotated[
        MarkerWord | None,
        Field(description="The type of the marker; null if there is none, or if compaction emptied it."),
    ]
    marker_offset: int | None
    ended_at: Annotated[RawTime, Field(description="Time of the marker, by the clock of the leader that wrote it.")]
    cause: Annotated[
        CauseWord | None,
        Field(
            description="The cause that the transaction log shows; `admin` also for a marker written by hand; null if"
            " unknown."
        ),
    ]
    confidence: ConfidenceWord | None
    by_hand: Annotated[
        bool,
        Field(
            description="True if no coordinator decided the marker: somebody wrote it to this partition by hand. Left"
            " out otherwise."
        ),
    ] = False
    ends_nothing: Annotated[
        bool,
        Field(
            description="True for a marker that is known to end no records of its producer id, as at the head of a"
            " topic that was created again during a transaction. Left out otherwise."
        ),
    ] = False
    decision: Annotated[
        DecisionWithoutMarker | None,
        Field(
            description="The decision about the transaction that wrote the records, if its marker is missing on the"
            " partition. Left out otherwise."
        ),
    ] = None

    @staticmethod
    def of(explained_span: ExplainedSpan) -> LogSpan:
        span, ending = explained_span.span, explained_span.ending
        name, id_b64 = id_fields(explained_span.owner)
        cause = None if ending is None else ending.cause
        return shaped(
            LogSpan,
            span,
            from_=span.first,
            to=span.next,
            transactional_id=name,
            transactional_id_b64=id_b64,
            ended_at=moment(span.ended_ms),
            cause=None if cause is None else cause.code,
            confidence=None if cause is None else cause.confidence,
            by_hand=ending is not None and ending.by_hand,
            decision=None if explained_span.own is None else DecisionWithoutMarker.of(explained_span.own),
        )


class AbortedBy(Shape):
    """The aborted transactions of one producer id in a run."""

    producer_id: Wide
    transactional_id: Annotated[str | None, Field(description="The id that had the producer id; null if unknown.")]
    transactional_id_b64: IdBytes
    transactions: int

    @staticmethod
    def of(owner: RunOwner) -> AbortedBy:
        name, id_b64 = id_fields(owner.transactional_id)
        return shaped(AbortedBy, owner, transactional_id=name, transactional_id_b64=id_b64)


class AbortedRun(Shape):
    """A run of offsets that hold only aborted records, markers and gaps, so that read_committed consumers get nothing
    from it. The run may reach beyond the spans."""

    from_: Annotated[int, Field(alias="from", description="The first requested offset.")]
    to: Annotated[int, Field(description="The first offset after the run.")]
    records: int
    transactions: int
    owners: Annotated[list[AbortedBy], Field(description="The producer ids with the most transactions, at most 20.")]
    more_owners: Annotated[int, Field(description="The number of producer ids that are left out.")]
    first_readable: Annotated[
        int | None,
        Field(description="The offset `to`, if read_committed consumers get the record at that offset; else null."),
    ]
    ended_by: Annotated[
        Annotated[EndOfRun, OneOf(*EndOfRun)],
        Field(
            description="What is at `to`. readable: a record that read_committed consumers get. open: a record of an"
            " open transaction, at which read_committed consumers wait. log_end: the end of the log. bound: reading"
            " stopped, and the run may go on. unknown: unreadable bytes, or a record whose outcome is not known."
        ),
    ]

    @staticmethod
    def of(explained_run: ExplainedRun) -> AbortedRun:
        run = explained_run.run
        return shaped(
            AbortedRun,
            run,
            from_=run.first,
            transactions=explained_run.transactions,
            owners=[AbortedBy.of(owner) for owner in explained_run.owners],
            more_owners=explained_run.more_owners,
            first_readable=run.to if run.ended_by == EndOfRun.READABLE else None,
        )


RunOrNone = Annotated[
    AbortedRun | None,
    Field(
        description="The run of aborted records that begins at the first offset; null if no aborted record precedes the"
        " first readable one."
    ),
]


class LogExplanation(Shape):
    """An explanation from segment files alone. Its `as_of` is null, because the files do not show when they were
    written."""

    spans: list[LogSpan]
    truncated_at: int | None
    only_aborted: RunOrNone
    as_of: Time | None


class Span(LogSpan):
    """A range of adjacent offsets of one kind and one transaction."""

    href: Annotated[str | None, Field(description="Path of the transactional id.")]

    @staticmethod
    def in_cluster(span: ExplainedSpan, cluster: str) -> Span:
        """Returns the body of a span, with links to pages of the cluster of that name."""
        href = None if span.owner is None else transaction_link(cluster, span.owner)
        return shaped(Span, LogSpan.of(span), href=href)


class Explanation(Shape):
    spans: list[Span]
    truncated_at: Annotated[
        int | None,
        Field(description="The offset at which the spans end because a bound was reached; null if they are complete."),
    ]
    only_aborted: RunOrNone
    as_of: Time | None

    @staticmethod
    def of(seen: ExplainedOffsets, cluster: str) -> Explanation:
        return shaped(
            Explanation,
            seen,
            spans=[Span.in_cluster(span, cluster) for span in seen.spans],
            only_aborted=None if seen.only_aborted is None else AbortedRun.of(seen.only_aborted),
            as_of=text_of_time(seen.as_of_ms),
        )
