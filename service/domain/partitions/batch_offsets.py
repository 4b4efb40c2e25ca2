"""A batch of a partition's log, as explanations of offsets need it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class MarkerType(StrEnum):
    """The outcome that a control batch writes."""

    COMMIT = "COMMIT"
    ABORT = "ABORT"


class BatchOffsets(NamedTuple):
    """A batch: offsets [first, next), including those whose records compaction removed. `marker`: COMMIT or ABORT for a
    control batch; None if compaction emptied it (or it is no transaction marker). `timestamp_ms`: of the marker, or
    of the first record.
    `records`: number of records that compaction left; None: as many as offsets.
    """

    first: int
    next: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool = False
    marker: MarkerType | None = None
    timestamp_ms: int = -1
    records: int | None = None
