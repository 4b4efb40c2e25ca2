"""The shapes of explanations of a partition's offsets, as OpenAPI shows them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.schemas.history import Cause
from service.api.schemas.models import RawMs, Shape, Time, Wide

SpanKind = Literal["committed", "aborted", "open", "hanging", "non_transactional", "marker", "gap", "unknown"]


class Span(Shape):
    """Neighbouring offsets of one kind, of one transaction."""

    from_: int = Field(alias="from", description="The first offset.")
    to: int = Field(description="The first offset behind it.")
    kind: SpanKind = Field(
        description="marker: a control record that ends a transaction. gap: the log has no such offsets (any more)."
        " hanging: open, and no coordinator will ever end it. unknown: not readable, or its end was not found."
    )
    producer_id: int | None
    producer_id_str: Wide = None
    producer_epoch: int | None
    transactional_id: str | None = Field(description="Who had the producer id then; null where nobody knows.")
    marker: Literal["COMMIT", "ABORT"] | None = Field(
        description="What ended it, or what the marker says; null for a marker that compaction emptied."
    )
    marker_offset: int | None
    ended_at: Time | None = Field(description="By the clock of the leader that wrote the marker.")
    ended_raw_ms: RawMs = None
    cause: Cause | None = Field(
        description="As the coordinators' log tells; admin: the marker was written past them. Null: not known."
    )
    confidence: Literal["certain", "likely", "ambiguous"] | None
    transactional_id_b64: str | None = Field(
        description="The id's bytes as base64url where `transactional_id` is not exactly them, else null."
    )
    href: str | None = Field(description="Where the transactional id is shown in full.")


class Explanation(Shape):
    spans: list[Span]
    truncated_at: int | None = Field(
        description="Reading stopped at this offset with something left to tell; null: nothing is."
    )
    as_of: Time | None
