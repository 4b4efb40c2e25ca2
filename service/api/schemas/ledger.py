"""The shapes of markers and volume of tailed partitions, as OpenAPI shows them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.schemas.models import RawMs, Shape, Time, Wide


class Marker(Shape):
    """A control record that ended a transaction on the partition."""

    offset: int
    offset_str: Wide = None
    at: Time | None = Field(description="By the clock of the partition's leader.")
    at_raw_ms: RawMs = None
    marker: Literal["COMMIT", "ABORT"]
    producer_id: int
    producer_id_str: Wide = None
    producer_epoch: int
    coordinator_epoch: int
    transactional_id: str | None = Field(description="Who had the producer id then; null: nobody that was ever seen.")
    transactional_id_b64: str | None = Field(
        description="The id's bytes as base64url where `transactional_id` is not exactly them, else null."
    )
    generation: int = Field(description="Higher: of a later log. Offsets begin anew where a topic was created again.")
    href: str | None = Field(description="Where its transactional id is shown in full.")


class Markers(Shape):
    items: list[Marker]
    next_cursor: str | None
    as_of: Time | None


class VolumeMinute(Shape):
    minute: Time | None = Field(description="Its beginning, by the timestamps of the batches.")
    records: int
    bytes: int = Field(description="Of whole batches as they lie in the log, markers included.")
    transactional_records: int
    commits: int = Field(description="Markers of transactions that were committed.")
    aborts: int


class Volume(Shape):
    items: list[VolumeMinute]
    next_cursor: str | None
    as_of: Time | None
