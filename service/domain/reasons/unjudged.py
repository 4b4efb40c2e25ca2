"""Reasons why a partition, or an entry that is open on it, is not judged although Kafka was asked."""

from __future__ import annotations

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import is_log_absent


class NotReadYet(Reason):
    """The partition is stalled, and its open entries are read in the next micro-batch."""

    code = "not_read_yet"
    sentence = "its open transactions have not been read yet"


class NotAllRead(Reason):
    """Not every open entry of the partition could be read. `because` is None if the read gave no reason."""

    because: Reason | None
    code = "not_all_read"

    def __str__(self) -> str:
        return _with_cause("not all of its open transactions could be read", self.because)


class OwnerUndecodable(Reason):
    """The newest record of the owner of the entry's producer id cannot be decoded, so the owner's state is unknown."""

    code = "owner_undecodable"
    sentence = "the newest record of its transactional.id cannot be decoded"


class LogUnread(Reason):
    """The transaction log is not read to its end. `because`: the reason; None if reading is still under way."""

    because: Reason | None = None
    code = "log_unread"

    def __str__(self) -> str:
        if is_log_absent(self.because):
            return str(self.because)
        return _with_cause("the transaction log is not read to its end", self.because)


class BeingConfirmed(Reason):
    """No known id will end the entry; the three confirmation steps decide whether it hangs. `owner_state`: the state of
    the id that wrote the entry, in the words of the API; None if that id is not known. `has_other_owner`: the producer
    id belongs to an id that cannot have written the entry."""

    owner_state: str | None
    has_other_owner: bool = False
    code = "looked_at_again"

    def __str__(self) -> str:
        if self.has_other_owner:
            return "the transactional.id that owns its producer id cannot have written it; it is being checked again"
        if self.owner_state is None:
            return "no owner of its producer id is known; it is being checked again"
        return (
            f"its transactional.id is in state {self.owner_state}, and the log has no transaction that will end the"
            " open records; it is being checked again"
        )


class OwnerLeftBehind(Reason):
    """The owner of the entry's producer id was left behind in partition `log_partition` of the transaction log when
    partitions were added. Only a coordinator that has not restarted since then still ends the entry."""

    log_partition: int
    code = "owner_left_behind"
    sentence = (
        "partitions were added to __transaction_state, and its transactional.id was left behind in partition"
        " {0.log_partition}: only a coordinator that has not restarted since then ends its transaction"
    )


class ProducerUnknown(Reason):
    """The partition is not judged, because an entry of this producer id cannot be judged. `because`: why the entry
    cannot be judged."""

    producer_id: int
    because: Reason
    code = "producer_unknown"
    sentence = "producer id {0.producer_id}: {0.because}"


class TooManyStalled(Reason):
    """More than `most` partitions are stalled; only `most` of them are judged at once."""

    most: int
    code = "too_many_stalled"
    sentence = "more than {0.most:,} partitions are stalled: only those stalled longest are judged"


class TooManyOpen(Reason):
    """More than `most` transactions are open; only `most` of them are read at once."""

    most: int
    code = "too_many_open"
    sentence = "more than {0.most:,} transactions are open: not all of them are judged"


class LessCommon(Reason):
    """Stands for the less common reasons why partitions did not answer; the commonest reasons are listed one by one."""

    code = "less_common"
    sentence = "no answer, for less common reasons"


def _with_cause(text: str, because: Reason | None) -> str:
    return text if because is None else f"{text}: {because}"
