"""Finds out what the principal may do, by requests about topics, ids and groups, some of them with invented names. The
requests write and create nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import (
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeGroupsRequest,
    DescribeQuorumRequest,
    DescribeTransactionsRequest,
)

from service.clock import wall_clock_ms
from service.domain.transaction_log.states import is_time
from service.kafka.client import KafkaClient
from service.kafka.cluster import BROKER, configs_request, layouts_request, versions_request
from service.kafka.errors import KafkaFailure

TIMEOUT_MS: Final = 5_000
_AT_ONCE: Final = 200
_GROUP_AUTHORIZATION_FAILED: Final = 30
_TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
_SECURITY_DISABLED: Final = 54
_ANY, _DENY = 1, 2
OPERATIONS: Final = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
}
"""Operations by code (AclOperation.java)."""


class Broker(NamedTuple):
    """A broker as the cluster's metadata advertises it."""

    node: int
    host: str
    port: int


class Versions(NamedTuple):
    """Versions that a broker reports. `apis`: a mapping from API key to the API's highest version. `supported`: a
    mapping from feature to its highest supported level. `finalized`: a mapping from finalized feature to its level in
    force."""

    apis: dict[int, int]
    supported: dict[str, int]
    finalized: dict[str, int]


class Cluster(NamedTuple):
    """A broker's answer about its cluster. `operations`: the operations that the principal may do on the
    cluster; None if the broker does not report them, for example without DESCRIBE (KIP-430). `reports_operations`:
    False if the broker is too old for DescribeCluster."""

    cluster_id: str | None
    operations: frozenset[str] | None
    reports_operations: bool = True


class ControllerClock(NamedTuple):
    """The active controller's clock: it showed `time_ms` between `asked_at_ms` and `answered_at_ms` of our clock."""

    node: int
    time_ms: int
    asked_at_ms: int
    answered_at_ms: int


def advertised(client: KafkaClient) -> list[Broker]:
    """Returns the brokers that the bootstrap server reported, even if none can be reached at these addresses."""
    known = client._client.cluster.brokers()
    return sorted(Broker(b.node_id, b.host, b.port) for b in known if isinstance(b.node_id, int))


def versions(client: KafkaClient, node: int) -> Versions:
    """Returns the versions of broker `node`. Needs no permission. Raises KafkaUnavailable or KafkaRefused."""
    answer = client.ask(versions_request(), node, TIMEOUT_MS)
    return Versions(
        {api.api_key: api.max_version for api in answer.api_keys},
        {f.name: f.max_version for f in answer.supported_features or []},
        {f.name: f.max_version_level for f in answer.finalized_features or []},
    )


def topic_errors(client: KafkaClient, node: int, topics: Sequence[str]) -> dict[str, int]:
    """Returns the error code of each topic: 0 if the topic may be described, 3 if it does not exist, 29 if it may not
    be described (whether it exists or not). Other codes are possible, such as 5 (LEADER_NOT_AVAILABLE).

    Raises KafkaUnavailable or KafkaRefused.
    """
    found: dict[str, int] = {}
    for some in _portions(topics):
        answer = client.ask(layouts_request(some), node, TIMEOUT_MS)
        found |= {topic.name: topic.error_code for topic in answer.topics}
    return found


def denied_ids(client: KafkaClient, node: int, ids: Sequence[str]) -> list[str]:
    """Returns the ids that the principal may not describe. Any broker can answer: Kafka checks permission before it
    looks for the coordinator (KafkaApis.handleDescribeTransactionsRequest). Raises KafkaUnavailable or KafkaRefused.
    """
    found = []
    for some in _portions(ids):
        answer = client.ask(DescribeTransactionsRequest(transactional_ids=some), node, TIMEOUT_MS)
        found += [
            state.transactional_id
            for state in answer.transaction_states
            if state.error_code == _TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        ]
    return found


def denied_groups(client: KafkaClient, node: int, groups: Sequence[str]) -> list[str]:
    """Returns the groups that the principal may not describe. Any broker can answer, as for `denied_ids`. Raises
    KafkaUnavailable or KafkaRefused.
    """
    found = []
    for some in _portions(groups):
        request = DescribeGroupsRequest(groups=some, include_authorized_operations=False)
        answer = client.ask(request, node, TIMEOUT_MS)
        found += [group.group_id for group in answer.groups if group.error_code == _GROUP_AUTHORIZATION_FAILED]
    return found


def cluster(client: KafkaClient, node: int) -> Cluster:
    """Returns the cluster's id, which needs no permission, and the allowed operations. If DescribeCluster fails,
    returns None for the id and for the operations. If the broker does not support DescribeCluster, reads only the id,
    by Metadata, and raises KafkaUnavailable or KafkaRefused if the Metadata request fails."""
    if client.version_of(DescribeClusterRequest.API_KEY) < 0:
        found = client.ask(layouts_request([]), node, TIMEOUT_MS).cluster_id
        return Cluster(found, None, False)
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, max_version=1)
    try:
        answer = client.ask(request, node, TIMEOUT_MS)
    except KafkaFailure:
        return Cluster(None, None)
    allowed = answer.authorized_operations or ()
    names = frozenset(OPERATIONS[int(one)] for one in allowed if int(one) in OPERATIONS)
    return Cluster(answer.cluster_id, names or None)


def readable_configs(client: KafkaClient, node: int, names: Sequence[str]) -> set[str]:
    """Returns the names of the configs that the broker reports; none without DESCRIBE_CONFIGS on the cluster. Raises
    KafkaUnavailable or KafkaRefused.
    """
    answer = client.ask(configs_request(BROKER, [str(node)], names), node, TIMEOUT_MS).results[0]
    return {config.name for config in answer.configs or () if config.value is not None}


def has_authorizer(client: KafkaClient, node: int) -> bool | None:
    """Returns whether the brokers check permissions. Returns None if the broker does not answer, or refuses
    DescribeAcls (which needs DESCRIBE on the cluster)."""
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter="User:txnscope-doctor-asks",  # an invented name: only the error code matters
        host_filter=None,
        operation=_ANY,
        permission_type=_DENY,
    )
    try:
        error = client.ask(request, node, TIMEOUT_MS).error_code
    except KafkaFailure:
        return None
    return False if error == _SECURITY_DISABLED else True if error == 0 else None


def controller_clock(client: KafkaClient, node: int) -> ControllerClock | None:
    """Returns the time by the active controller's clock. DescribeQuorum returns, for each voter, the time at which the
    voter was last caught up; for the active controller this is the present time (DescribeQuorumResponse.json).

    Returns None without DESCRIBE on the cluster, or if the broker does not answer or does not report the time.
    """
    topic = DescribeQuorumRequest.TopicData
    metadata = topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])
    asked_at_ms = wall_clock_ms()
    try:
        answer = client.ask(DescribeQuorumRequest(topics=[metadata], min_version=1), node, TIMEOUT_MS)
    except KafkaFailure:
        return None
    answered_at_ms = wall_clock_ms()
    for partition in (p for t in answer.topics or () for p in t.partitions):
        for voter in partition.current_voters or ():
            if voter.replica_id == partition.leader_id and is_time(voter.last_caught_up_timestamp):
                return ControllerClock(voter.replica_id, voter.last_caught_up_timestamp, asked_at_ms, answered_at_ms)
    return None


def _portions(names: Sequence[str]) -> Any:
    left = iter(names)
    while some := list(islice(left, _AT_ONCE)):
        yield some
