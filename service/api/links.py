"""Addresses of the API's own answers, whatever characters a name or an id holds."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from service.api.base64url import encode_bytes

API: Final = "/api/v1"

_PERCENT_UP_TO: Final = 16_384
"""Servers refuse request lines of 64 kB, and an id of 32,767 bytes would take 98 kB percent-encoded; as base64, 44."""


def cluster_link(cluster: str) -> str:
    return f"{API}/clusters/{quote(cluster, safe='')}"


def transaction_link(cluster: str, transactional_id: bytes) -> str:
    return f"{cluster_link(cluster)}/transaction?{id_query(transactional_id)}"


def id_query(transactional_id: bytes) -> str:
    """By `id`, unless that became too long; then by `id_b64`."""
    percent = quote(transactional_id, safe="")
    return f"id={percent}" if len(percent) <= _PERCENT_UP_TO else f"id_b64={encode_bytes(transactional_id)}"


def partition_link(cluster: str, topic: str, partition: int) -> str:
    return f"{cluster_link(cluster)}/partitions/{quote(topic, safe='')}/{partition}"
