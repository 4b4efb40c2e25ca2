"""The bodies of the history of a transactional id: its timeline, its minutes, and the owners of a producer id."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from service.api.http.fields import id_b64, id_text, transaction_link
from service.api.schemas.shape import IdBytes, OneOf, Page, RawTime, Shape, Time, Wide, moment, shaped
from service.api.schemas.transactions import Aborts, State
from service.domain.transaction_log import journal, timeline
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.facts import NO_ID
from service.domain.transaction_log.id_delta import IdMinute
from service.domain.transaction_log.states import NAMES
from service.store.queries.history import Owner

CauseWord = Annotated[CauseCode, OneOf(*CauseCode)]
ConfidenceWord = Annotated[Confidence, OneOf(*Confidence)]


class Transition(Shape):
    """A record of the transaction log that is more than a step of an ordinary commit."""

    type: Literal["transition"]
    at: Annotated[RawTime, Field(description="Time at which the coordinator appended the record.")]
    offset: Annotated[int, Field(description="Offset in the id's partition of `__transaction_state`.")]
    from_state: Annotated[
        State | None, Field(description="State in the id's record before this one; null if that record was never read.")
    ]
    to_state: State
    producer_id: Annotated[
        Wide | None,
        Field(description="Producer id in the record; null for an expiry, and for a record that cannot be decoded."),
    ]
    producer_epoch: int | None
    duration_ms: Annotated[
        int | None, Field(description="At PrepareCommit and PrepareAbort: time since the first partition was added.")
    ]
    marker_ms: Annotated[
        int | None,
        Field(description="At CompleteCommit and CompleteAbort: time since the first PrepareCommit or PrepareAbort."),
    ]
    cause: Annotated[
        CauseWord | None,
        Field(
            description="The cause of a transaction's end is given at its PrepareCommit or PrepareAbort; the cause of"
            " an expiry or initialisation, at the record of that event. An abort's cause may still change until the"
            " id's next record."
        ),
    ]
    confidence: ConfidenceWord | None
    note: Annotated[str | None, Field(description="A sentence about what is unusual in this transition.")]

    @staticmethod
    def of(transition: journal.Transition) -> Transition:
        has_producer = transition.producer_id != NO_ID
        return shaped(
            Transition,
            transition,
            type="transition",
            at=moment(transition.at_ms),
            from_state=NAMES.get(transition.from_state),
            to_state=NAMES[transition.to_state],
            producer_id=transition.producer_id if has_producer else None,
            producer_epoch=transition.producer_epoch if has_producer else None,
        )


class FoldedCommits(Shape):
    """A number of successive ordinary commits, without another transition between them."""

    type: Literal["folded"]
    count: int
    from_at: RawTime
    to_at: RawTime

    @staticmethod
    def of(item: timeline.Folded) -> FoldedCommits:
        return FoldedCommits(
            type="folded",
            count=item.commits,
            from_at=moment(item.from_ms),
            to_at=moment(item.to_ms),
        )


class Timeline(Page[Annotated[Transition | FoldedCommits, Field(discriminator="type")]]):
    counted_since: Annotated[
        Time | None,
        Field(
            description="Time from which ordinary commits are counted, by minute. For earlier times, only"
            " transitions other than ordinary commits are listed. Null if nothing has been counted yet."
        ),
    ]


class Durations(Shape):
    """Durations in milliseconds; null if no duration was measured in the minute."""

    mean: int | None
    max: int | None

    @staticmethod
    def of(count: int, sum_ms: int, max_ms: int) -> Durations:
        return Durations(mean=round(sum_ms / count), max=max_ms) if count else Durations(mean=None, max=None)


class TransactionMinute(Shape):
    minute: Annotated[RawTime, Field(description="Start of the minute, by the timestamps of the records.")]
    commits: int
    aborts: Aborts
    open_ms: Annotated[
        Durations, Field(description="Time from the first added partition to PrepareCommit or PrepareAbort.")
    ]
    marker_ms: Annotated[
        Durations,
        Field(description="Time from the first PrepareCommit or PrepareAbort to CompleteCommit or CompleteAbort."),
    ]

    @staticmethod
    def of(minute: IdMinute) -> TransactionMinute:
        sums = minute.sums
        return TransactionMinute(
            minute=moment(minute.minute_ms),
            commits=sums.commits,
            aborts=shaped(Aborts, minute.aborts),
            open_ms=Durations.of(sums.opened, sums.open_sum_ms, sums.open_max_ms),
            marker_ms=Durations.of(sums.marked, sums.marker_sum_ms, sums.marker_max_ms),
        )


class TransactionRates(Page[TransactionMinute]): ...


class ProducerOwner(Shape):
    transactional_id: Annotated[
        str, Field(description="The id itself; its display form (escaped) if it is not valid UTF-8.")
    ]
    first_seen_at: RawTime
    last_seen_at: RawTime
    first_epoch: int
    last_epoch: int
    current: Annotated[bool, Field(description="True if the id still has this producer id.")]
    transactional_id_b64: IdBytes
    href: Annotated[str, Field(description="Path of this transactional id.")]

    @staticmethod
    def of(owner: Owner, cluster: str) -> ProducerOwner:
        return shaped(
            ProducerOwner,
            owner,
            transactional_id=id_text(owner.transactional_id),
            first_seen_at=moment(owner.first_seen_ms),
            last_seen_at=moment(owner.last_seen_ms),
            transactional_id_b64=id_b64(owner.transactional_id),
            href=transaction_link(cluster, owner.transactional_id),
        )


class ProducerOwners(Page[ProducerOwner]): ...
