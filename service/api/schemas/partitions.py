"""The shapes of data partitions and of the transactions open there, as OpenAPI shows them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.schemas.models import RawMs, Shape, Time, Wide

Relation = Literal["open", "overdue", "completing", "adopted", "unreplicated_marker", "hanging", "unknown"]


class OpenTransaction(Shape):
    """A transaction that is open on the partition, and who will end it."""

    producer_id: int
    producer_id_str: Wide = None
    producer_epoch: int
    transactional_id: str | None = Field(description="Who wrote it; null: its producer id was never seen in the log.")
    transactional_id_b64: str | None = Field(
        description="The id's bytes as base64url where `transactional_id` is not exactly them, else null."
    )
    start_offset: int
    start_offset_str: Wide = None
    started_at: Time | None = Field(description="By the coordinator that will end it, else when it was first seen.")
    started_raw_ms: RawMs = None
    first_record_timestamp: Time | None = Field(description="Of its first batch, by its producer's clock.")
    first_record_timestamp_raw_ms: RawMs = None
    last_write_at: Time | None = Field(description="Timestamp of its newest batch, by its producer's clock.")
    last_write_raw_ms: RawMs = None
    records: int | None = Field(description="Between LSO and high watermark; null unless all of that was read.")
    bytes: int | None
    blocking_now: bool = Field(description="It begins at the LSO.")
    relation: Relation
    why: str | None = Field(description="What is missing where `relation` is unknown.")
    href: str | None = Field(description="Where its transactional id is shown in full.")


class Partition(Shape):
    """A partition as its leader reported it at `observed_at`; fields that it never reported are null."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    log_start_offset: int | None
    log_start_offset_str: Wide = None
    last_stable_offset: int | None
    last_stable_offset_str: Wide = None
    high_watermark: int | None
    high_watermark_str: Wide = None
    lso_lag_records: int | None = Field(description="From the LSO to the high watermark, markers included.")
    lso_lag_records_str: Wide = None
    lso_lag_bytes: int | None = Field(description="Null unless all of that was read.")
    lso_stalled_since: Time | None = Field(description="Since when the LSO stands there below the high watermark.")
    blocker: OpenTransaction | None = Field(description="What pins the LSO, where all that was seen agrees on it.")
    open_transactions: list[OpenTransaction] = Field(description="Where the LSO stands: all that are known, by offset.")
    blocked_groups: list[str] = Field(description="Consumer groups that wait, or soon will, behind the LSO.")
    judged: bool = Field(description="It answers, and who will end each transaction (older than 3 s) is known.")
    why: str | None = Field(description="What is missing where it is not judged.")
    observed_at: Time | None
    href: str = Field(description="Where this partition is shown alone.")


class OnePartition(Partition):
    as_of: Time | None


class Partitions(Shape):
    items: list[Partition]
    next_cursor: str | None
    as_of: Time | None
