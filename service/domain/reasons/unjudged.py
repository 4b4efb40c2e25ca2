"""Reasons why a partition, or an entry that is open on it, is not judged although Kafka was asked."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.reasons.reason import Reason


@dataclass(frozen=True)
class NotReadYet(Reason):
    """The partition is stalled, and the next micro-batch reads what is open there."""

    code = "not_read_yet"

    def __str__(self) -> str:
        return "what is open there was not read yet"


@dataclass(frozen=True)
class NotAllRead(Reason):
    """Not every open entry of the partition could be read. `because` is None if the read gave no reason."""

    because: Reason | None
    code = "not_all_read"

    def __str__(self) -> str:
        text = "not all that is open there could be read"
        return text if self.because is None else f"{text}: {self.because}"


@dataclass(frozen=True)
class OwnerUndecodable(Reason):
    """The newest record of the owner cannot be decoded, so its state is unknown."""

    code = "owner_undecodable"

    def __str__(self) -> str:
        return "the newest record of its transactional.id cannot be decoded"


@dataclass(frozen=True)
class LogUnread(Reason):
    """The transaction log is not read to its end. `because` is None while it is being read."""

    because: Reason | None = None
    code = "log_unread"

    def __str__(self) -> str:
        text = "the coordinators' log is not read to its end"
        return text if self.because is None else f"{text}: {self.because}"


@dataclass(frozen=True)
class LookedAtAgain(Reason):
    """No id is known that will end the entry; the three confirmation steps decide. `owner_state`: in the words of the
    API; None if no id is known to have had the producer id."""

    owner_state: str | None
    code = "looked_at_again"

    def __str__(self) -> str:
        if self.owner_state is None:
            return "no transactional.id is known to have had its producer id: being looked at again"
        return f"its transactional.id is {self.owner_state} and does not list the partition: being looked at again"


@dataclass(frozen=True)
class ProducerUnknown(Reason):
    """The partition is not judged because of an entry of this producer id."""

    producer_id: int
    because: Reason
    code = "producer_unknown"

    def __str__(self) -> str:
        return f"producer id {self.producer_id}: {self.because}"


@dataclass(frozen=True)
class TooManyStand(Reason):
    """More than `most` partitions are stalled; only `most` of them are judged at once."""

    most: int
    code = "too_many_stand"

    def __str__(self) -> str:
        return f"more than {self.most:,} partitions stand at once: only those that stand longest are judged"


@dataclass(frozen=True)
class TooManyOpen(Reason):
    """More than `most` transactions are open; only `most` of them are read at once."""

    most: int
    code = "too_many_open"

    def __str__(self) -> str:
        return f"more than {self.most:,} transactions are open at once: not all of them are judged"


@dataclass(frozen=True)
class LessCommon(Reason):
    """Stands for the less common reasons of partitions that did not answer; the commonest are listed by themselves."""

    code = "less_common"

    def __str__(self) -> str:
        return "they did not answer, for less common reasons"
