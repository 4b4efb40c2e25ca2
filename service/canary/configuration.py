"""The table `[canary]`: whether the service runs transactions of its own, and which.

[canary]
every = "10s"
topic = "txnscope-canary"
coordinators = [1, 2, 3]                     # ids of brokers; default: every broker that coordinates transactions
kafka_config = "/etc/txnscope/canary.properties"
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from service.access.configuration import Table
from service.domain.canary.targets import MOST_COORDINATORS, TOPIC_WORD
from service.domain.duration_text import span_ms

SHORTEST_MS: Final = 1_000
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _every_ms(duration: Any) -> int:
    every_ms = span_ms(duration)
    if every_ms < SHORTEST_MS:
        raise ValueError(f"{duration!r} is shorter than a second")
    return every_ms


def _topic(topic: str) -> str:
    if not _TOPIC.fullmatch(topic):
        raise ValueError(f"{topic!r} is not a valid topic name")
    if TOPIC_WORD not in topic:
        raise ValueError(
            f"{topic!r} does not contain {TOPIC_WORD}; the canary deletes the records of its topic, so it needs a topic"
            " of its own"
        )
    return topic


Broker = Annotated[int, Field(ge=0, strict=True)]


class CanaryTable(Table):
    """The table `[canary]` of the settings. `every`: time (ms) from the start of one round to the start of the next.
    `kafka_config`: a client.properties file for the canary's principal; if None, the canary uses the principal with
    which txnscope reads."""

    every: Annotated[int, BeforeValidator(_every_ms), PlainSerializer(lambda ms: f"{ms // 1000}s", return_type=str)] = (
        10_000
    )
    topic: Annotated[str, AfterValidator(_topic)] = TOPIC_WORD
    coordinators: tuple[Broker, ...] = Field(default=(), max_length=MOST_COORDINATORS)
    kafka_config: Path | None = None
