"""The bodies of sources: how far logs are read or partitions sampled, how old that is, and why a source stalls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from service.api.http.fields import text_of_time
from service.api.schemas.shape import Shape, Time
from service.domain.reasons.reason import text_of
from service.views.cluster import sources


@dataclass(slots=True, kw_only=True)
class Coverage(Shape):
    """Numbers of partitions of a source. `judged`: read to the end; data partitions: with a verdict. `why`: the reason
    for `unknown`."""

    watched: int
    judged: int
    unknown: int
    why: str | None


@dataclass(slots=True, kw_only=True)
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
            description="One line: why nothing new is stored. The `error`, or that no streaming application reads"
            " the cluster, or that the running one makes no progress on this source. Null while the source is read.",
        ),
    ]

    @staticmethod
    def of(source: sources.Source) -> Source:
        return Source(
            source=source.name,
            position=source.position,
            end=source.end,
            lag=source.lag,
            caught_up=source.caught_up,
            coverage=Coverage(**source.coverage._asdict()),
            as_of=text_of_time(source.as_of_ms),
            error=text_of(source.error),
            stalled_since=None if source.stall is None else text_of_time(source.stall.since_ms),
            stalled_why=source.stalled_why,
        )
