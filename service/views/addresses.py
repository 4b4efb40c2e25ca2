"""Builds the addresses of the pages. Links to a finding, an id or a partition are stable, whatever characters their
names contain."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final
from urllib.parse import quote, urlencode

_PERCENT_UP_TO: Final = 16_384
"""Maximum length (bytes) of a percent-encoded id in a link; a longer one is encoded as base64. Servers refuse request
lines of 64 kB; an id of 32,767 bytes would take 98 kB percent-encoded, 44 kB as base64."""


def cluster_page(cluster: str) -> str:
    return f"/clusters/{quote(cluster, safe='')}"


def page_of(cluster: str, name: str, **query: object) -> str:
    """Returns the address of a page of the cluster. `name`: findings, transactions, applications, partitions, expiring,
    groups, pipeline, audit or goto. `query`: the parameters of the address; parameters that are None are left out."""
    given = {key: value for key, value in query.items() if value is not None}
    return f"{cluster_page(cluster)}/{name}" + (f"?{urlencode(given, doseq=True)}" if given else "")


def finding_page(cluster: str, finding: str) -> str:
    return f"{cluster_page(cluster)}/findings/{quote(finding, safe='')}"


def transaction_page(cluster: str, transactional_id: bytes) -> str:
    return f"{cluster_page(cluster)}/transaction?{id_query(transactional_id)}"


def application_page(cluster: str, name: str) -> str:
    return f"{cluster_page(cluster)}/applications/{quote(name, safe='')}"


def partition_page(cluster: str, topic: str, partition: int, offset: int | None = None) -> str:
    place = f"{cluster_page(cluster)}/partitions/{quote(topic, safe='')}/{partition}"
    return place if offset is None else f"{place}?offset={offset}"


def id_query(transactional_id: bytes) -> str:
    """Returns a query string that names the id: `id=…`, or `id_b64=…` if the percent-encoded id is too long."""
    percent = quote(transactional_id, safe="")
    return f"id={percent}" if len(percent) <= _PERCENT_UP_TO else f"id_b64={encode_bytes(transactional_id)}"


def encode_bytes(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
