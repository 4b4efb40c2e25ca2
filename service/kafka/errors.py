"""What can go wrong when asking Kafka, in the three ways a caller has to tell apart.

Error codes: `Errors.java` (org.apache.kafka.common.protocol).
"""

from __future__ import annotations

from typing import Final

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import Told

NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
TOPIC_AUTHORIZATION_FAILED: Final = 29
CLUSTER_AUTHORIZATION_FAILED: Final = 31
OFFSET_NOT_AVAILABLE: Final = 78

TRANSIENT: Final = frozenset(
    {
        UNKNOWN_TOPIC_OR_PARTITION,  # metadata travels: a new or deleted topic is unknown to some brokers for a while
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
"""Codes after which asking again, with fresh metadata, is the right answer."""


class KafkaFailure(Exception):
    """Base of everything that asking Kafka can end in; as text one line for people. `reason`: what it was raised with;
    a text is what Kafka or the library said."""

    def __init__(self, reason: Reason | str) -> None:
        self.reason = Told(reason) if isinstance(reason, str) else reason
        super().__init__(self.reason)


class KafkaUnavailable(KafkaFailure):
    """Nobody answers, or not in time, or only with transient errors: try again later."""


class KafkaRefused(KafkaFailure):
    """Kafka answers no: wrong credentials, missing permission, unsupported request."""


class BadClientConfig(KafkaFailure):
    """The client.properties file asks for something that cannot be done; names the key."""
