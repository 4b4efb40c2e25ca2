"""Reads a cluster's id, brokers, finalized features and the configs that verdicts depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from service.domain.transaction_log.states import CONFIG_DEFAULTS
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure, KafkaUnavailable

_BROKER = 4  # ConfigResource.Type
_TIMEOUT_MS: Final = 5_000


def cluster_id(client: KafkaClient) -> str:
    """Returns the id with which the brokers were formatted. Raises KafkaUnavailable."""
    found = client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False)).cluster_id
    if not found:
        raise KafkaUnavailable("the cluster does not report its id")
    return str(found)


def describe(client: KafkaClient) -> dict[str, Any]:
    """Returns `{"brokers": [{"id", "host", "port", "newest_metadata_version"}], "features": {name: level}, "configs":
    {name: {"value", "source"}}}`.

    `newest_metadata_version` is None if the broker does not report it or does not answer. `source` is "broker" or
    "assumed" (no permission to read configs: DESCRIBE_CONFIGS on the cluster). Raises KafkaUnavailable.
    """
    brokers = _brokers(client)
    versions = _versions(client, [broker.node_id for broker in brokers])
    finalized: list[Any] = next((one.finalized_features or [] for one in versions.values()), [])
    return {
        "brokers": [
            {
                "id": b.node_id,
                "host": b.host,
                "port": b.port,
                "newest_metadata_version": _newest_metadata_version(versions.get(b.node_id)),
            }
            for b in brokers
        ],
        "features": {f.name: f.max_version_level for f in finalized},
        "configs": _configs(client, brokers[0].node_id),
    }


def broker_ids(client: KafkaClient) -> list[int]:
    """Returns the ids of the brokers that are there now. Raises KafkaUnavailable."""
    return [broker.node_id for broker in _brokers(client)]


def _brokers(client: KafkaClient) -> list[Any]:
    brokers = client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False)).brokers
    return sorted(brokers, key=lambda broker: broker.node_id)


def _versions(client: KafkaClient, nodes: Sequence[int]) -> dict[int, Any]:
    """Returns the ApiVersions answer of each broker that answers. Raises KafkaUnavailable if none does."""
    answers = client.ask_all({node: [_versions_request()] for node in nodes}, _TIMEOUT_MS)
    found = {node: answer[0] for node, answer in answers.items() if not isinstance(answer, KafkaFailure)}
    if not found:
        raise KafkaUnavailable("no broker reports its versions")
    return found


def _versions_request() -> Any:
    return ApiVersionsRequest(client_software_name="txnscope", client_software_version="1")


def _newest_metadata_version(versions: Any) -> int | None:
    supported = () if versions is None else versions.supported_features or ()
    return next((feature.max_version for feature in supported if feature.name == "metadata.version"), None)


def _configs(client: KafkaClient, broker: int) -> dict[str, dict[str, str]]:
    configs = {name: {"value": value, "source": "assumed"} for name, value in CONFIG_DEFAULTS.items()}
    wanted = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(broker), configuration_keys=list(CONFIG_DEFAULTS)
    )
    try:
        result = client.ask(DescribeConfigsRequest(resources=[wanted], include_synonyms=False), broker).results[0]
    except KafkaFailure:
        return configs
    for config in result.configs or []:
        if config.name in configs and (config.value or "").isdecimal():
            configs[config.name] = {"value": config.value, "source": "broker"}
    return configs
