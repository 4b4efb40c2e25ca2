"""Why something could not be read: what Kafka, or the way to it, does not give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from service.domain.reasons.reason import Reason, parts

DESCRIBE: Final = "DESCRIBE"
READ: Final = "READ"


def _one_line(text: str) -> str:
    """Printable, whatever was said."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)


@dataclass(frozen=True)
class Told(Reason):
    """In the words of a library, of Spark or of a broker, which nobody but people reads."""

    text: str
    code = "told"

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _one_line(self.text))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class NoPermission(Reason):
    """Kafka answers TOPIC_AUTHORIZATION_FAILED. `operations`: the ACLs to grant, DESCRIBE and READ."""

    topic: str
    operations: tuple[str, ...]
    code = "no_permission"

    def __str__(self) -> str:
        return f"no permission on topic {self.topic}: grant {self.grant} on it"

    @property
    def grant(self) -> str:
        return " and ".join(self.operations)


@dataclass(frozen=True)
class NoBroker(Reason):
    """Not one of the bootstrap servers answers. `servers`: as they were given."""

    servers: str
    code = "no_broker"

    def __str__(self) -> str:
        return f"no broker of {self.servers} answers"


@dataclass(frozen=True)
class NoLeader(Reason):
    """Of a partition."""

    code = "no_leader"

    def __str__(self) -> str:
        return "no leader"


@dataclass(frozen=True)
class SilentBroker(Reason):
    """It leads the partition, and does not answer in time."""

    broker: int
    code = "silent_broker"

    def __str__(self) -> str:
        return f"broker {self.broker} does not answer"


@dataclass(frozen=True)
class NewLeader(Reason):
    """It answers OFFSET_NOT_AVAILABLE."""

    broker: int
    code = "new_leader"

    def __str__(self) -> str:
        return f"broker {self.broker} leads since a moment ago, and does not know the high watermark yet"


@dataclass(frozen=True)
class ErrorAnswer(Reason):
    """`request`: which one is answered so; "": a look at the partition's ends. `error`: as in Kafka's Errors.java."""

    broker: int
    request: str
    error: int
    code = "error_answer"

    def __str__(self) -> str:
        about = f" {self.request}" if self.request else ""
        return f"broker {self.broker} answers{about} with error {self.error}"


@dataclass(frozen=True)
class NoBatchAtLso(Reason):
    """The partition answers, and what lies at its LSO does not come."""

    code = "no_batch_at_lso"

    def __str__(self) -> str:
        return "the batch at the LSO could not be read"


@dataclass(frozen=True)
class NoBatch(Reason):
    """What lies there is none: damaged, or of a format that nobody knows."""

    topic: str
    partition: int
    offset: int
    code = "no_batch"

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: what lies at offset {self.offset} is no batch"


@dataclass(frozen=True)
class TopicGone(Reason):
    """It was read before."""

    topic: str
    code = "topic_gone"

    def __str__(self) -> str:
        return f"topic {self.topic} is no more: waiting for it"


@dataclass(frozen=True)
class LeadersSilent(Reason):
    """Of one topic: `silent` of its `all` partitions. `named`: the first of them."""

    topic: str
    silent: int
    all: int
    named: tuple[int, ...]
    code = "leaders_silent"

    def __str__(self) -> str:
        names = ", ".join(f"{self.topic}-{p}" for p in self.named) + (" …" if self.silent > len(self.named) else "")
        return f"{self.silent} of {self.all} partitions have no leader that answers: {names}"


@dataclass(frozen=True)
class FirstStartIncomplete(Reason):
    """What is counted depends on where the logs end at the first start, so all of them have to answer."""

    because: Reason | None
    code = "first_start_incomplete"

    def __str__(self) -> str:
        return f"the first start needs every partition to answer: {self.because}"


@dataclass(frozen=True)
class PartitionsSilent(Reason):
    """Of all that are watched. `reasons`: the commonest, with the number of partitions."""

    silent: int
    watched: int
    reasons: tuple[tuple[Reason, int], ...]
    code = "partitions_silent"

    def __str__(self) -> str:
        told = ", ".join(f"{reason} ({count})" for reason, count in self.reasons)
        return f"{self.silent} of {self.watched} partitions do not answer: {told}"


def missing_permissions(reason: Reason | None) -> Iterator[NoPermission]:
    """All that are a part of the reason."""
    return (one for one in parts(reason) if isinstance(one, NoPermission))


def is_denied(reason: Reason | None) -> bool:
    return any(True for _ in missing_permissions(reason))
