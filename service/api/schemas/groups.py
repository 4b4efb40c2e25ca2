"""The shapes of consumer groups on stalled partitions, as OpenAPI shows them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.schemas.models import Shape, Time, Wide

GroupRelation = Literal["inactive", "unstable_offsets", "stopped", "will_stop", "reads_uncommitted"]


class Group(Shape):
    """A consumer group on a partition where an open transaction affects it. `lag_to_lso` is the lag that clients
    measure: it is 0 where a `read_committed` consumer waits at the LSO. `lag_to_hw` counts everything written behind
    the group's offset.
    """

    group: str
    topic: str
    partition: int
    committed_offset: int | None = Field(
        description="Null: none is committed yet, the first one is pending; or the group's coordinator does not tell."
    )
    committed_offset_str: Wide = None
    last_stable_offset: int | None = Field(description="Of this partition; null where it is not watched.")
    last_stable_offset_str: Wide = None
    high_watermark: int | None
    high_watermark_str: Wide = None
    lag_to_lso: int | None = Field(description="Below 0: the group is beyond the LSO.")
    lag_to_lso_str: Wide = None
    lag_to_hw: int | None
    lag_to_hw_str: Wide = None
    members: int | None = Field(description="Null: its coordinator does not tell.")
    relation: GroupRelation
    offsets_partition: int | None = Field(
        description="Where an offset of the group is pending (unstable_offsets, or inactive): the partition of"
        " __consumer_offsets on which the transaction is open."
    )
    producer_id: int | None = Field(
        description="Of that transaction; null where its batches could not be read: it may be any that is open there."
    )
    producer_id_str: Wide = None
    observed_at: Time | None


class Groups(Shape):
    items: list[Group]
    next_cursor: str | None
    as_of: Time | None
