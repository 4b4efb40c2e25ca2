"""Finds out what the canary's principal may do, without writing or creating anything."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import EndTxnRequest

from service.domain.canary.targets import ID_PREFIX
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.permissions import OPERATIONS, TIMEOUT_MS, denied_ids, topic_errors

_INVENTED_ID: Final = f"{ID_PREFIX}doctor-asks"
"""An id that no producer has: a request to end its transaction changes nothing."""

_NO_PRODUCER: Final = -1
_TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
_OPERATIONS_SINCE: Final = 8  # Metadata version
_OPERATIONS_UNTIL: Final = 10


class CanaryPermissions(NamedTuple):
    """The principal's permissions for the canary. `operations`: the operations allowed on the canary's topic; None if
    Metadata returns an error for the topic, for example because it does not exist or may not be described.
    `may_create`: whether the topic may be created; None if there is no such error. `describes_log`: whether DESCRIBE on
    `__transaction_state` is allowed."""

    operations: frozenset[str] | None
    may_create: bool | None
    describes_log: bool
    writes_ids: bool
    describes_ids: bool


def read_permissions(client: KafkaClient, node: int, topic: str, log: str) -> CanaryPermissions:
    """Returns what the principal may do. Raises KafkaUnavailable or KafkaRefused."""
    codes = topic_errors(client, node, [topic, log])
    exists = codes[topic] == errors.NONE
    return CanaryPermissions(
        _operations(client, node, topic) if exists else None,
        None if exists else _may_create(client, node, topic),
        codes[log] != errors.TOPIC_AUTHORIZATION_FAILED,
        _writes_ids(client, node),
        not denied_ids(client, node, [_INVENTED_ID]),
    )


def _operations(client: KafkaClient, node: int, topic: str) -> frozenset[str]:
    wanted = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
        min_version=_OPERATIONS_SINCE,
        max_version=_OPERATIONS_UNTIL,
    )
    found = client.ask(wanted, node, TIMEOUT_MS).topics[0].authorized_operations or ()
    return frozenset(OPERATIONS[int(one)] for one in found if int(one) in OPERATIONS)


def _may_create(client: KafkaClient, node: int, topic: str) -> bool:
    """Returns whether the principal may create the topic; the request is only validated (KIP-108)."""
    wanted = CreateTopicsRequest.CreatableTopic(
        name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=True)
    code = client.ask(request, node, TIMEOUT_MS).topics[0].error_code
    return code not in (errors.TOPIC_AUTHORIZATION_FAILED, errors.CLUSTER_AUTHORIZATION_FAILED)


def _writes_ids(client: KafkaClient, node: int) -> bool:
    """Returns whether WRITE is allowed on the canary's ids. Any broker can answer: Kafka checks permission before it
    looks for the coordinator (KafkaApis.handleEndTxnRequest)."""
    request = EndTxnRequest(
        transactional_id=_INVENTED_ID,
        producer_id=_NO_PRODUCER,
        producer_epoch=_NO_PRODUCER,
        committed=False,
        max_version=3,
    )
    return bool(client.ask(request, node, TIMEOUT_MS).error_code != _TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
