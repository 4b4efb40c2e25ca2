"""Failures of requests to Kafka: the three kinds that a caller has to distinguish.

Error codes: `Errors.java` (org.apache.kafka.common.protocol).
"""

from __future__ import annotations

from typing import Final

from service.domain.error_codes import error_text
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import ErrorText, NoPermission

NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_COORDINATOR: Final = 16
TOPIC_AUTHORIZATION_FAILED: Final = 29
CLUSTER_AUTHORIZATION_FAILED: Final = 31
OFFSET_NOT_AVAILABLE: Final = 78

TRANSIENT: Final = frozenset(
    {
        UNKNOWN_TOPIC_OR_PARTITION,  # metadata spreads slowly: some brokers do not know a new or deleted topic yet
        LEADER_NOT_AVAILABLE,
        6,  # NOT_LEADER_OR_FOLLOWER
        7,  # REQUEST_TIMED_OUT
        8,  # BROKER_NOT_AVAILABLE
        9,  # REPLICA_NOT_AVAILABLE
        13,  # NETWORK_EXCEPTION
        56,  # KAFKA_STORAGE_ERROR
        74,  # FENCED_LEADER_EPOCH
        75,  # UNKNOWN_LEADER_EPOCH
        OFFSET_NOT_AVAILABLE,  # a new leader whose high watermark is still behind
        100,  # UNKNOWN_TOPIC_ID
        103,  # INCONSISTENT_TOPIC_ID
    }
)
"""Error codes after which the caller should ask again, with fresh metadata."""


class KafkaFailure(Exception):
    """Base of all failures of a request to Kafka; its text is one line for people. `reason`: why the request failed; a
    plain text becomes an ErrorText."""

    def __init__(self, reason: Reason | str) -> None:
        self.reason = ErrorText(reason) if isinstance(reason, str) else reason
        super().__init__(self.reason)


class KafkaUnavailable(KafkaFailure):
    """Kafka gives no valid answer in time, or answers with an error that is no refusal: a later try may succeed."""


class PartitionUnavailable(KafkaUnavailable):
    """The broker answers, with an error for the one partition that was asked for."""


class KafkaRefused(KafkaFailure):
    """Kafka refuses the request: wrong credentials, missing permission, unsupported request. `error`: Kafka's name of
    the error; UNKNOWN_SERVER_ERROR if it is not known."""

    def __init__(self, reason: Reason | str, error: str = "UNKNOWN_SERVER_ERROR") -> None:
        self.error = error
        super().__init__(reason)


class BadClientConfig(KafkaFailure):
    """A setting in the client.properties file that cannot be applied; the message names the key."""


def raise_for(
    code: int, topic: str, operations: tuple[str, ...], request: str, failure: type[KafkaFailure] = KafkaUnavailable
) -> None:
    """Raises a failure unless `code`, the error code in an answer about the topic, is 0: KafkaRefused if a permission
    is missing, else `failure`. `operations`: the operations to grant. `request`: the request, in words."""
    if code == TOPIC_AUTHORIZATION_FAILED:
        raise KafkaRefused(NoPermission(topic, operations), "TOPIC_AUTHORIZATION_FAILED")
    if code != NONE:
        raise failure(f"{request}: {error_text(code)}")
