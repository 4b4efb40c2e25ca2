"""Topics on which something stands and that may not be read: who holds it, and whether it ever ends, is not known."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple

from service.domain.findings import kinds
from service.domain.findings.conditions import bounded
from service.domain.findings.finding import Evidence, Observation, Subject
from service.domain.findings.words import partitions

DENIED: Final = "no permission on topic"
"""How `service.kafka.errors.no_permission` begins."""


class NotJudged(NamedTuple):
    """A partition whose LSO stands, and why it cannot be judged (None: it can)."""

    topic: str
    partition: int
    stalled_since_ms: int | None
    why: str | None


def unreadable_topics(found: Iterable[NotJudged]) -> list[Observation]:
    """One for each topic; what cannot be judged for other reasons is none of these."""
    denied = sorted(one for one in found if one.why is not None and f"{DENIED} {one.topic}:" in one.why)
    topics = [list(of_topic) for _, of_topic in groupby(denied, key=lambda one: one.topic)]
    return bounded(
        topics,
        _observe,
        lambda rest: f"{len(rest):,} more topics on which something stands may not be read: grant READ on them",
    )


def _observe(denied: list[NotJudged]) -> Observation:
    topic, _, since_ms, why = denied[0]
    where = partitions([(topic, one.partition) for one in denied])
    return Observation(
        kind=kinds.COVERAGE_GAP,
        severity=kinds.WARNING,
        subject=Subject(topic=topic),
        summary=f"{where}: the LSO stands, and who holds it is not known: the topic may not be read",
        advice="Grant READ on the topic to txnscope's principal: Kafka asks for it to say which producers have"
        f" transactions open. `txnscope doctor --topics {topic}` prints the line.",
        evidence=() if since_ms is None else (Evidence(since_ms, f"{topic}-{denied[0].partition}", why or ""),),
    )
