"""What looks at data partitions tell: values that travel from the sampler to the store.

Everything is frozen and plain. `_ms` are milliseconds since the epoch; the time of a look is taken before its question
is asked, so what it tells was still true then. Numbers of a partition that did not answer are -1, never used.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.reasons.reason import Reason

SOURCE: Final = "partitions"

Place = tuple[str, int]
"""Topic and partition."""

NOT_TOLD: Final = -2
"""A coordinator epoch that could not be asked for; -1 is Kafka's word for "no marker of it was ever written here"."""


class PartitionLook(NamedTuple):
    """One partition as its leader told of it. `why`: it could not be looked at, and the numbers are -1. `is_gone`: the
    partition, or its topic, is no more (or another topic has its name now).

    `stalled_since_ms`: since when the LSO stands there below the high watermark; None where both are equal.
    `samples`: what rounds of questions prove about when it was written (`service.domain.worlds.order.decode`); None
    where the LSO does not stand.
    """

    topic: str
    partition: int
    topic_id: str
    leader: int
    leader_epoch: int
    log_start: int
    last_stable_offset: int
    high_watermark: int
    looked_at_ms: int
    stalled_since_ms: int | None
    why: Reason | None = None
    is_gone: bool = False
    samples: str | None = None


class FirstBatch(NamedTuple):
    """Header of the batch at the LSO. `base_offset` may lie below the LSO. Timestamps are the producer's clock."""

    base_offset: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    first_timestamp_ms: int
    max_timestamp_ms: int


class OpenEntry(NamedTuple):
    """A transaction that is open on the partition: what the leader's producer state (DescribeProducers) or a window of
    batch headers says. `coordinator_epoch`: of the last marker of this producer id, -1 for none ever, NOT_TOLD.
    `last_timestamp_ms`: of its newest batch, the producer's clock; -1 for none. `records`, `bytes`: between LSO and
    high watermark, only where a window was read whole.
    """

    producer_id: int
    producer_epoch: int
    start_offset: int
    coordinator_epoch: int
    last_timestamp_ms: int
    records: int | None = None
    bytes: int | None = None


class StalledRead(NamedTuple):
    """What was read of a partition whose LSO stands still. `described`: `entries` are all there are
    (DescribeProducers); otherwise they come from a window of headers, and are all there are only if `is_whole`. `why`:
    what could not be read; `described` and `first` say what could.

    `is_whole`: every batch from the LSO to the high watermark was read, `lag_bytes` of them (else None).
    """

    topic: str
    partition: int
    topic_id: str
    leader_epoch: int
    last_stable_offset: int
    high_watermark: int
    read_at_ms: int
    first: FirstBatch | None
    described: bool
    entries: tuple[OpenEntry, ...]
    is_whole: bool = False
    lag_bytes: int | None = None
    why: Reason | None = None


class PartitionsBatch(NamedTuple):
    """All that one micro-batch of the sampler saw. `looked_at_ms`: when it last looked at all watched partitions.

    `is_full`: `looks` are all watched partitions; what the store knows beyond them is not watched any more.
    `not_covered`: partitions there are and that are not watched (`--topics`, mirrored). `trouble`: why not all
    could be asked; None when all brokers answered.
    """

    looked_at_ms: int
    looks: tuple[PartitionLook, ...] = ()
    reads: tuple[StalledRead, ...] = ()
    is_full: bool = False
    not_covered: int = 0
    trouble: Reason | None = None
