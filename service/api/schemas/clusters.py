"""The bodies of clusters: counts, rates, sources, unknowns, and the partitions of the coordinators' log."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.api.http.fields import text_of_time
from service.api.schemas.findings import KindWord, StatusWord
from service.api.schemas.shape import OneOf, Page, Shape, Time, shaped
from service.api.schemas.transactions import Aborts
from service.domain.reasons.reason import text_of
from service.store.schema.history import COMMITS
from service.views.cluster import sources
from service.views.cluster.description import Description
from service.views.cluster.sources import Coordinator
from service.views.cluster.unknowns import Unknown, UnknownKind


class Coverage(Shape):
    """Numbers of partitions of a source. `judged`: partitions that are read to the end; for the source `partitions`,
    those whose open transactions all have a known relation. `why`: the reason why partitions are `unknown`."""

    watched: int
    judged: int
    unknown: int
    why: str | None


class Source(Shape):
    """The progress of a source: how far it is read, how old the last read is, and why the source stalls. `position`,
    `end` and `lag` are sums over its partitions, in offsets; null for the source `partitions`, which is sampled.
    """

    source: str
    position: int | None
    end: int | None
    lag: int | None
    caught_up: bool
    coverage: Coverage
    as_of: Time | None
    error: Annotated[
        str | None, Field(description="Last error of the streaming application; null if its last read succeeded.")
    ]
    stalled_since: Annotated[
        Time | None,
        Field(
            description="`as_of` if it is more than 10 s old; null if it is younger, or if the source was never read."
        ),
    ]
    stalled_why: Annotated[
        str | None,
        Field(
            description="The reason, in one line, why nothing new is stored: the `error`, or that no streaming"
            " application reads the cluster, or that the running application makes no progress on this source. Null"
            " while the source is read.",
        ),
    ]

    @staticmethod
    def of(source: sources.Source) -> Source:
        return shaped(
            Source,
            source,
            coverage=shaped(Coverage, source.coverage),
            as_of=text_of_time(source.as_of_ms),
            error=text_of(source.error),
            stalled_since=None if source.stall is None else text_of_time(source.stall.since_ms),
        )


class States(Shape):
    """Numbers of ids, by state."""

    Empty: int
    Ongoing: int
    PrepareCommit: int
    PrepareAbort: int
    CompleteCommit: int
    CompleteAbort: int
    Unknown: Annotated[int, Field(description="Ids whose newest record could not be decoded.")]


class PartitionCounts(Shape):
    """Numbers of data partitions, as of the source `partitions`."""

    watched: int
    judged: Annotated[
        int, Field(description="Partitions whose leader answers and whose open transactions all have a known relation.")
    ]
    unknown: int
    blocked: Annotated[
        int, Field(description="Partitions whose LSO has been stalled below the high watermark for 1 s or more.")
    ]
    not_covered: Annotated[int, Field(description="Partitions that are not watched.")]


class FindingCount(Shape):
    kind: KindWord
    status: StatusWord
    count: int


class TruncatedCount(Shape):
    """The number of things of one kind that were left out because of a bound: findings that were not opened, and ids,
    partitions, groups, transactions or events that were not read (counted up to 100,000)."""

    kind: str
    count: int


class Totals(Shape):
    """Numbers of transactions that ended since `counted_since`."""

    counted_since: Time | None
    commits: int
    aborts: Aborts


class Rates(Shape):
    """Rates over the last whole minutes before the cluster's newest `as_of`. `window_ms`: total length (ms) of these
    minutes; 0 if no minute was counted yet."""

    window_ms: int
    commits_per_s: float
    aborts_per_s: float


class Broker(Shape):
    id: int
    host: str
    port: int
    release: Annotated[
        str | None,
        Field(
            description="Kafka release without the patch release, from the newest `metadata.version`; null if the"
            " broker does not report its `metadata.version`, or reports one that this service does not know."
        ),
    ]


class Config(Shape):
    value: str
    source: Annotated[str, OneOf("broker", "assumed")]


class UnknownThing(Shape):
    """Something that cannot be known now, and the permission that would help."""

    kind: UnknownKind
    what: str
    why: str
    grant: str | None

    @staticmethod
    def of(unknown: Unknown) -> UnknownThing:
        return shaped(UnknownThing, unknown, grant=None if unknown.grant is None else unknown.grant.text)


class Cluster(Shape):
    cluster: str
    cluster_id: str
    states: States
    open: Annotated[int, Field(description="Number of ids in Ongoing, PrepareCommit or PrepareAbort.")]
    hanging: int
    partitions: PartitionCounts
    findings: list[FindingCount]
    truncated: Annotated[
        list[TruncatedCount],
        Field(description="The kinds for which a bound was reached; empty if nothing is left out."),
    ]
    contradictions: Annotated[
        int,
        Field(
            description="Number of decisions about hanging transactions that became unknown because two reads of the"
            " logs contradict each other. Counted since the first start."
        ),
    ]
    totals: Totals
    rates: Rates
    brokers: list[Broker]
    features: dict[str, int]
    configs: dict[str, Config]
    sources: list[Source]
    unknown: list[UnknownThing]

    @staticmethod
    def of(seen: Description) -> Cluster:
        return shaped(
            Cluster,
            seen,
            cluster=seen.cluster.name,
            cluster_id=seen.cluster.kafka_cluster_id,
            states=States(**seen.states),
            partitions=shaped(PartitionCounts, seen.coverage),
            findings=[FindingCount(kind=row.kind, status=row.status, count=row.findings) for row in seen.counts],
            truncated=[TruncatedCount(kind=kind, count=number) for kind, number in seen.truncated.items()],
            totals=Totals(
                counted_since=text_of_time(seen.cluster.counted_since_ms),
                commits=seen.ended.get(COMMITS, 0),
                aborts=Aborts(**seen.aborts),
            ),
            rates=shaped(Rates, seen.rates),
            brokers=[shaped(Broker, broker) for broker in seen.brokers],
            configs={name: Config(**one) for name, one in seen.configs.items()},
            sources=[Source.of(source) for source in seen.sources],
            unknown=[UnknownThing.of(one) for one in seen.unknown],
        )


class Clusters(Page[Cluster]): ...


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

    @staticmethod
    def of(coordinator: Coordinator) -> CoordinatorPartition:
        log = coordinator.log
        return shaped(
            CoordinatorPartition,
            log,
            ids=coordinator.ids,
            open=coordinator.open,
            transitions_per_s=round(log.transitions_per_s, 3),
            position=log.next_offset,
            as_of=text_of_time(log.end_asked_at_ms),
        )


class Coordinators(Page[CoordinatorPartition]): ...
