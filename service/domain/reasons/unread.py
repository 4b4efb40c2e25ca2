"""Reasons why something could not be read: errors and refusals of Kafka, and failures of the network."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from service.domain.error_codes import error_text
from service.domain.reasons.reason import Reason, parts

DESCRIBE: Final = "DESCRIBE"
READ: Final = "READ"
_NAMED: Final = 5


def _one_line(text: str) -> str:
    """Returns the text as one printable line, whatever it contains."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)


class ErrorText(Reason):
    """An error text of a library, of Spark or of a broker, shown to people and never interpreted."""

    text: str
    code = "error_text"

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _one_line(self.text))

    def __str__(self) -> str:
        return self.text


class NoPermission(Reason):
    """Kafka answers a request about the topic with TOPIC_AUTHORIZATION_FAILED. `operations`: the operations to grant:
    DESCRIBE, READ, or both."""

    topic: str
    operations: tuple[str, ...]
    code = "no_permission"
    sentence = "no permission on topic {0.topic}: grant {0.grant} on it"

    @property
    def grant(self) -> str:
        return " and ".join(self.operations)


class ShareLevelNotReported(Reason):
    """The brokers do not report the isolation level of a share group, because DESCRIBE_CONFIGS on the group is
    denied."""

    code = "share_level_not_reported"
    sentence = "the isolation level of the share group is not known: no DESCRIBE_CONFIGS on the group"


class ShareOffsetsNotReported(Reason):
    """The brokers do not support DescribeShareGroupOffsets."""

    code = "share_offsets_not_reported"
    sentence = "the brokers do not report the offsets of share groups (Kafka 4.1 and later do)"


class NoBroker(Reason):
    """None of the bootstrap servers answers. `servers`: as they were given."""

    servers: str
    code = "no_broker"
    sentence = "no broker of {0.servers} answers"


class NoLeader(Reason):
    """The partition has no leader."""

    code = "no_leader"
    sentence = "no leader"


class UnresponsiveBroker(Reason):
    """The broker leads the partition and does not answer in time."""

    broker: int
    code = "unresponsive_broker"
    sentence = "broker {0.broker} does not answer"


class NewLeader(Reason):
    """The broker answers OFFSET_NOT_AVAILABLE: it has just become the leader and does not know the high watermark
    yet."""

    broker: int
    code = "new_leader"
    sentence = "broker {0.broker} has just become the leader and does not know the high watermark yet"


class ErrorAnswer(Reason):
    """A broker answers a request with an error. `request`: the request's name; empty for a sample of the partition's
    offsets. `error`: the code in Kafka's Errors.java."""

    broker: int
    request: str
    error: int
    code = "error_answer"

    def __str__(self) -> str:
        about = f" {self.request}" if self.request else ""
        return f"broker {self.broker} answers{about} with {error_text(self.error)}"


class NoBatchAtLso(Reason):
    """The partition answers, but the batch at its LSO could not be fetched."""

    code = "no_batch_at_lso"
    sentence = "the batch at the LSO could not be read"


class NoBatch(Reason):
    """The bytes at this offset are no batch: damaged, or of an unknown format."""

    topic: str
    partition: int
    offset: int
    code = "no_batch"
    sentence = "{0.topic}-{0.partition}: the bytes at offset {0.offset} are no record batch"


class PartitionsUnreadable(Reason):
    """The leaders answer, but records of these partitions of one topic could not be fetched. `offsets`: for each
    partition, the first offset that could not be fetched."""

    topic: str
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    because: Reason
    code = "partitions_unreadable"

    def __str__(self) -> str:
        names = ", ".join(f"{self.topic}-{p}" for p in self.partitions[:_NAMED])
        more = " …" if len(self.partitions) > _NAMED else ""
        return f"{names}{more} cannot be read: {self.because}"


class TopicGone(Reason):
    """The topic was read before and does not exist any more."""

    topic: str
    code = "topic_gone"
    sentence = "topic {0.topic} no longer exists; waiting until it exists again"


class TransactionsSeen(StrEnum):
    """A sign that transactions are used on a cluster that shows no transaction log."""

    LISTED = "listed"
    OPEN = "open"


_SIGNS: Final = {
    TransactionsSeen.LISTED: "they list transactional ids",
    TransactionsSeen.OPEN: "transactions are open",
}


class NoTransactionLog(Reason):
    """The brokers list no topic `__transaction_state`, although transactions are used. Apache Kafka creates the topic
    before the first transactional.id gets its producer id. Brokers that are not Apache Kafka keep the records of
    transactional.ids elsewhere, or hide them."""

    seen: TransactionsSeen
    code = "no_transaction_log"

    def __post_init__(self) -> None:
        """Converts `seen` if it is given as text, as in the store. Raises ValueError for a text that only a later
        version of txnscope knows."""
        object.__setattr__(self, "seen", TransactionsSeen(self.seen))

    def __str__(self) -> str:
        return (
            f"the brokers list no topic __transaction_state, although {_SIGNS[self.seen]}: they do not have it, or"
            " hide it"
        )


class LeadersUnresponsive(Reason):
    """`silent` of the `all` partitions of one topic have no leader that answers. `named`: the first of these
    partitions."""

    topic: str
    silent: int
    all: int
    named: tuple[int, ...]
    code = "leaders_silent"

    def __str__(self) -> str:
        names = ", ".join(f"{self.topic}-{p}" for p in self.named) + (" …" if self.silent > len(self.named) else "")
        return f"{self.silent} of {self.all} partitions have no leader that answers: {names}"


class FirstStartIncomplete(Reason):
    """Some partitions did not answer at the first start. Every partition has to answer, because its records are counted
    from the end offset that it reports at the first start."""

    because: Reason | None
    code = "first_start_incomplete"
    sentence = "the first start needs every partition to answer: {0.because}"


class PartitionsUnresponsive(Reason):
    """`silent` of the `watched` partitions do not answer. `reasons`: the commonest reasons, each with its number of
    partitions."""

    silent: int
    watched: int
    reasons: tuple[tuple[Reason, int], ...]
    code = "partitions_silent"

    def __str__(self) -> str:
        listed = ", ".join(f"{reason} ({count})" for reason, count in self.reasons)
        return f"{self.silent} of {self.watched} partitions do not answer: {listed}"


def missing_permissions(reason: Reason | None) -> Iterator[NoPermission]:
    """Yields all missing permissions that the reason contains."""
    return (part for part in parts(reason) if isinstance(part, NoPermission))


def is_denied(reason: Reason | None) -> bool:
    return any(True for _ in missing_permissions(reason))


def is_log_absent(reason: Reason | None) -> bool:
    """Returns whether the reason is, or contains, a NoTransactionLog."""
    return any(isinstance(part, NoTransactionLog) for part in parts(reason))
