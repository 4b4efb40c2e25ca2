"""Why a partition, or what is open on it, is not judged though Kafka was asked."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.reasons.reason import Reason


@dataclass(frozen=True)
class NotReadYet(Reason):
    """Its LSO stands, and the next micro-batch reads what is there."""

    code = "not_read_yet"

    def __str__(self) -> str:
        return "what is open there was not read yet"


@dataclass(frozen=True)
class NotAllRead(Reason):
    """`because` None: it was not said."""

    because: Reason | None
    code = "not_all_read"

    def __str__(self) -> str:
        text = "not all that is open there could be read"
        return text if self.because is None else f"{text}: {self.because}"


@dataclass(frozen=True)
class OwnerUndecodable(Reason):
    """The id that has the producer id is in an unknown state."""

    code = "owner_undecodable"

    def __str__(self) -> str:
        return "the newest record of its transactional.id cannot be decoded"


@dataclass(frozen=True)
class LogUnread(Reason):
    """The coordinators' log. `because` None: it is being read."""

    because: Reason | None = None
    code = "log_unread"

    def __str__(self) -> str:
        text = "the coordinators' log is not read to its end"
        return text if self.because is None else f"{text}: {self.because}"


@dataclass(frozen=True)
class LookedAtAgain(Reason):
    """Nobody is known who will end it; three looks decide. `owner_state`: in the words of the API; None: no id is known
    to have had its producer id."""

    owner_state: str | None
    code = "looked_at_again"

    def __str__(self) -> str:
        if self.owner_state is None:
            return "no transactional.id is known to have had its producer id: being looked at again"
        return f"its transactional.id is {self.owner_state} and does not list the partition: being looked at again"


@dataclass(frozen=True)
class ProducerUnknown(Reason):
    """The partition is not judged for what one producer has open there."""

    producer_id: int
    because: Reason
    code = "producer_unknown"

    def __str__(self) -> str:
        return f"producer id {self.producer_id}: {self.because}"


@dataclass(frozen=True)
class TooManyStand(Reason):
    """Partitions whose LSO stands, more than are judged at once."""

    most: int
    code = "too_many_stand"

    def __str__(self) -> str:
        return f"more than {self.most:,} partitions stand at once: only those that stand longest are judged"


@dataclass(frozen=True)
class TooManyOpen(Reason):
    """Open transactions, more than are read at once."""

    most: int
    code = "too_many_open"

    def __str__(self) -> str:
        return f"more than {self.most:,} transactions are open at once: not all of them are judged"


@dataclass(frozen=True)
class LessCommon(Reason):
    """Of partitions that did not answer: what is behind the commonest reasons."""

    code = "less_common"

    def __str__(self) -> str:
        return "they did not answer, for less common reasons"
