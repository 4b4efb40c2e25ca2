"""The shapes of the answers, as OpenAPI shows them. The handlers build plain values; tests check that the two agree."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Time = Annotated[
    str,
    Field(json_schema_extra={"format": "date-time"}, examples=["2026-01-31T12:00:00.000Z"]),
]
"""A time in RFC 3339, UTC, with milliseconds."""

RawMs = Annotated[
    int | None, Field(description="Only where the time beside it is null because the record's number is none.")
]
Wide = Annotated[str | None, Field(description="Only where the number is above 2^53: its digits.")]


class Shape(BaseModel):
    """A body of the API. It may have further keys: `x_str` beside any number `x` above 2^53."""

    model_config = ConfigDict(json_schema_extra={"patternProperties": {"_str$": {"type": "string"}}})


class Aborts(Shape):
    """Numbers of aborted transactions, by cause."""

    client: int
    timeout: int
    fenced: int
    admin: int
    unattributed: int


class States(Shape):
    """Numbers of ids, by state."""

    Empty: int
    Ongoing: int
    PrepareCommit: int
    PrepareAbort: int
    CompleteCommit: int
    CompleteAbort: int
    Unknown: int = Field(description="Their newest record could not be decoded.")


class PartitionCounts(Shape):
    """Numbers of data partitions, as of the source `partitions`."""

    watched: int
    judged: int = Field(description="They answer, and who will end each transaction that is open there is known.")
    unknown: int
    blocked: int = Field(description="Their LSO stands below the high watermark, for a second or longer.")
    not_covered: int = Field(description="There are so many more, which are not watched.")


class FindingCount(Shape):
    kind: str
    status: str
    count: int


class TruncatedCount(Shape):
    """Counts what has no finding because there is too much of its kind at once: findings that were not opened, and ids,
    partitions, groups, transactions or events that were not read (up to 100,000)."""

    kind: str
    count: int


class Totals(Shape):
    """Transactions that ended since `counted_since`."""

    counted_since: Time | None
    commits: int
    aborts: Aborts


class Rates(Shape):
    """Rates over the last whole minutes before the cluster's newest `as_of`. `window_ms` 0: none was counted yet."""

    window_ms: int
    commits_per_s: float
    aborts_per_s: float


class Broker(Shape):
    id: int
    host: str
    port: int
    release: str | None = Field(
        description="Of Kafka, without the patch release, as its newest `metadata.version` tells; null where it does"
        " not tell, or is newer than this service knows."
    )


class Config(Shape):
    value: str
    source: Literal["broker", "assumed"]


class Coverage(Shape):
    """The partitions of a source: known, read to the end (data partitions: judged), the others and the reason."""

    watched: int
    judged: int
    unknown: int
    why: str | None


class Source(Shape):
    """The progress of a source: how far it is read, how old that is, and why it stalls. `position`, `end` and `lag` are
    sums over its partitions, in records; null for data partitions: these are sampled, not read.
    """

    source: str
    position: int | None
    end: int | None
    lag: int | None
    caught_up: bool
    coverage: Coverage
    as_of: Time | None
    error: str | None = Field(description="What the streaming application reported last; null if that was a success.")
    stalled_since: Time | None = Field(
        description="`as_of`, once it is more than 10 s old; null before, and if the source was never read."
    )
    stalled_why: str | None = Field(
        description="Why nothing new is stored, in one line: the `error`, or that no streaming application reads the"
        " cluster, or that the one that runs makes no progress here. Null while the source does not stall.",
    )


UnknownWord = Literal["source", "partitions", "not_watched", "left_out", "offsets", "states", "configs"]


class UnknownThing(Shape):
    """Something that cannot be known now, and the permission that would help."""

    kind: UnknownWord
    what: str
    why: str
    grant: str | None


class Cluster(Shape):
    cluster: str
    cluster_id: str
    states: States
    open: int = Field(description="Ongoing, PrepareCommit and PrepareAbort.")
    hanging: int
    partitions: PartitionCounts
    findings: list[FindingCount]
    truncated: list[TruncatedCount] = Field(
        description="Of which kinds a bound was reached; empty while nothing is left out."
    )
    contradictions: int = Field(
        description="Decisions about hanging transactions that became unknown because two readings of the logs"
        " contradict each other; since the first start, never falls."
    )
    totals: Totals
    rates: Rates
    brokers: list[Broker]
    features: dict[str, int]
    configs: dict[str, Config]
    sources: list[Source]
    unknown: list[UnknownThing]


class Clusters(Shape):
    items: list[Cluster]
    next_cursor: str | None
    as_of: Time | None


class TopicPartition(Shape):
    topic: str
    partition: int


class Coordinator(Shape):
    """The leader of the id's partition of `__transaction_state`; null while that partition is not known."""

    partition: int
    leader: int | None
    epoch: int | None


class Counts(Shape):
    """Transactions of the id that ended since `since`, also those before an expiry of the id."""

    since: Time | None
    commits: int
    aborts: Aborts


class Transaction(Shape):
    transactional_id: str = Field(description="The id itself; escaped, as people see it, where it is not UTF-8.")
    state: Literal[
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Unknown",
        "Expired",
    ]
    producer_id: int = Field(description="-1: none of the id's records could be decoded.")
    producer_id_str: Wide = None
    producer_epoch: int
    timeout_ms: int = Field(description="2147483647: two-phase, it never times out.")
    started_at: Time | None
    started_raw_ms: RawMs = None
    last_updated_at: Time | None
    last_updated_raw_ms: RawMs = None
    state_since: Time | None
    state_since_raw_ms: RawMs = None
    times_out_at: Time | None
    times_out_raw_ms: RawMs = None
    expires_at: Time | None
    expires_raw_ms: RawMs = None
    partitions: list[TopicPartition] = Field(description="The full set while the transaction is open, else empty.")
    coordinator: Coordinator
    client_transaction_version: int
    previous_producer_id: int | None
    previous_producer_id_str: Wide = None
    last_outcome: Literal["commit", "abort"] | None
    counts: Counts
    transactional_id_b64: str | None = Field(
        description="The id's bytes as base64url where `transactional_id` is not exactly them, else null."
    )
    href: str = Field(description="Where this id is shown in full.")


class OneTransaction(Transaction):
    as_of: Time | None


class Transactions(Shape):
    items: list[Transaction]
    next_cursor: str | None
    as_of: Time | None


class CoordinatorPartition(Shape):
    partition: int
    leader: int
    leader_epoch: int
    ids: int
    open: int
    transitions_per_s: float
    position: int
    end_offset: int
    lag: int
    as_of: Time | None


class Coordinators(Shape):
    items: list[CoordinatorPartition]
    next_cursor: str | None
    as_of: Time | None
