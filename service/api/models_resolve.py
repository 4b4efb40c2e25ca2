"""The shape of a marker that was written, or would be, as OpenAPI shows it."""

from __future__ import annotations

from typing import Literal

from service.api.schemas.models import Shape, Time, Wide


class Resolution(Shape):
    """`executed`: the marker is in the log. `command`: Kafka's own tool for the same, null where it has none."""

    finding_id: str
    dry_run: bool
    executed: bool
    marker: Literal["COMMIT", "ABORT"]
    topic: str
    partition: int
    producer_id: int
    producer_id_str: Wide = None
    producer_epoch: int
    coordinator_epoch: int
    reason: str
    steps: list[str]
    command: str | None
    checked_at: Time
