"""What a cluster says of itself: id, brokers, finalized features and the configs that verdicts depend on."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from service.domain.limits import CONFIG_DEFAULTS
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure, KafkaUnavailable

_BROKER = 4  # ConfigResource.Type


def cluster_id(client: KafkaClient) -> str:
    """The id the brokers were formatted with. Raises KafkaUnavailable."""
    found = client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False)).cluster_id
    if not found:
        raise KafkaUnavailable("the cluster does not tell its id")
    return str(found)


def describe(client: KafkaClient) -> dict[str, Any]:
    """`{"brokers": [{"id", "host", "port"}], "features": {name: level}, "configs": {name: {"value", "source"}}}`.

    `source` is "broker" or "assumed" (no permission to read configs: DESCRIBE_CONFIGS on the cluster). Raises
    KafkaUnavailable.
    """
    brokers = client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False)).brokers
    versions = client.ask(ApiVersionsRequest(client_software_name="txnscope", client_software_version="1"))
    return {
        "brokers": sorted(
            ({"id": b.node_id, "host": b.host, "port": b.port} for b in brokers), key=lambda broker: broker["id"]
        ),
        "features": {f.name: f.max_version_level for f in versions.finalized_features or []},
        "configs": _configs(client, brokers[0].node_id),
    }


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
        if config.name in configs and config.value is not None:
            configs[config.name] = {"value": config.value, "source": "broker"}
    return configs
