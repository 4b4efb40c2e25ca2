"""The shapes of answers about the past (timeline, rates, owners of a producer id), as OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from service.api.schemas.models import Aborts, RawMs, Shape, Time, Wide

Cause = Literal[
    "commit",
    "client_abort",
    "timeout",
    "fenced",
    "admin",
    "empty_abort",
    "unattributed",
    "expired",
    "initialized",
    "pid_rotated",
]
FromState = Literal[
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Unknown",
    "Expired",
]


class Transition(Shape):
    """A record of the transaction log that is more than a step of an ordinary commit."""

    type: Literal["transition"]
    at: Time | None = Field(description="When the coordinator appended the record.")
    at_raw_ms: RawMs = None
    offset: int = Field(description="In the id's partition of `__transaction_state`.")
    from_state: FromState | None = Field(description="Null: the record before was never read.")
    to_state: FromState
    producer_id: int | None = Field(description="Null where the record names none: an expiry, or undecodable.")
    producer_id_str: Wide = None
    producer_epoch: int | None
    duration_ms: int | None = Field(description="At PrepareX: since the first partition was added.")
    marker_ms: int | None = Field(description="At CompleteX: since the first PrepareX, the time the markers took.")
    cause: Cause | None = Field(
        description="Why: an end at its PrepareX, an expiry and an initialisation at their own record. The cause of an"
        " abort may still change until the id's next record."
    )
    confidence: Literal["certain", "likely", "ambiguous"] | None
    note: str | None = Field(description="What is odd about the step, in words.")


class FoldedCommits(Shape):
    """Ordinary commits with no transition between them."""

    type: Literal["folded"]
    count: int
    from_at: Time | None
    from_raw_ms: RawMs = None
    to_at: Time | None
    to_raw_ms: RawMs = None


class Timeline(Shape):
    items: list[Annotated[Transition | FoldedCommits, Field(discriminator="type")]]
    next_cursor: str | None
    as_of: Time | None
    counted_since: Time | None = Field(
        description="From then on ordinary commits are counted, by minute; of what was before, only other transitions"
        " are listed. Null: nothing is counted yet."
    )


class Durations(Shape):
    """Durations in milliseconds; null if none was measured in that minute."""

    mean: int | None
    max: int | None


class TransactionMinute(Shape):
    minute: Time | None = Field(description="Its beginning, by the timestamps of the records.")
    minute_raw_ms: RawMs = None
    commits: int
    aborts: Aborts
    open_ms: Durations = Field(description="Of the transactions that reached PrepareX: since their first partition.")
    marker_ms: Durations = Field(description="Of those that were completed: since their first PrepareX.")


class TransactionRates(Shape):
    items: list[TransactionMinute]
    next_cursor: str | None
    as_of: Time | None


class ProducerOwner(Shape):
    transactional_id: str = Field(description="The id itself; escaped, as people see it, where it is not UTF-8.")
    first_seen_at: Time | None
    first_seen_raw_ms: RawMs = None
    last_seen_at: Time | None
    last_seen_raw_ms: RawMs = None
    first_epoch: int
    last_epoch: int
    current: bool = Field(description="It still writes under this producer id.")
    transactional_id_b64: str | None = Field(
        description="The id's bytes as base64url where `transactional_id` is not exactly them, else null."
    )
    href: str = Field(description="Where this id is shown in full.")


class ProducerOwners(Shape):
    items: list[ProducerOwner]
    next_cursor: str | None
    as_of: Time | None
