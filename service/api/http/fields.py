"""Bytes as text that needs no escapes in an address: base64url without padding."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from service.domain.transaction_log.limits import NO_TIME, is_time
from service.store.display import display_id


def encode_bytes(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def decode_bytes(text: str) -> bytes | None:
    """None if the text is not what `encode_bytes` makes."""
    try:
        data = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (UnicodeEncodeError, binascii.Error):
        return None
    return data if encode_bytes(data) == text.rstrip("=") else None


EXACT_UP_TO: Final = 2**53
"""Of a JSON number, where it is read as a double."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def id_text(transactional_id: bytes) -> str:
    """The id itself wherever it is UTF-8; else as people see it, and `id_b64` has its bytes."""
    try:
        return transactional_id.decode()
    except UnicodeDecodeError:
        return display_id(transactional_id)


def id_b64(transactional_id: bytes) -> str | None:
    """The bytes as base64url where `id_text` is not exactly them."""
    return None if id_text(transactional_id).encode() == transactional_id else encode_bytes(transactional_id)


def id_fields(transactional_id: bytes | None) -> dict[str, Any]:
    """`transactional_id` and `transactional_id_b64`; both null where there is none."""
    if transactional_id is None:
        return {"transactional_id": None, "transactional_id_b64": None}
    return {"transactional_id": id_text(transactional_id), "transactional_id_b64": id_b64(transactional_id)}


@lru_cache(maxsize=4096)  # an answer is asked for again and again with the times it had before
def text_of_time(ms: int | None) -> str | None:
    """RFC 3339, UTC, milliseconds; None for what is no time."""
    if ms is None or not is_time(ms):
        return None
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_field(name: str, ms: int | None) -> dict[str, Any]:
    """`{name: text}`, or with null and the number beside it for one that is no time: `x_at` has `x_raw_ms`.

    Kafka's -1 says that there is none, as None does.
    """
    fields: dict[str, Any] = {name: text_of_time(ms)}
    if ms is not None and ms != NO_TIME and not is_time(ms):
        fields[f"{name.removesuffix('_at')}_raw_ms"] = ms
    return fields


def spell_out_wide_numbers(value: Any) -> Any:
    """The value with a text `x_str` behind every number `x` that a double cannot hold, wherever it is."""
    if isinstance(value, dict):
        spelt: dict[str, Any] = {}
        for key, item in value.items():
            spelt[key] = spell_out_wide_numbers(item)
            if isinstance(item, int) and abs(item) > EXACT_UP_TO:
                spelt[f"{key}_str"] = str(item)
        return spelt
    if isinstance(value, list):
        return [spell_out_wide_numbers(item) for item in value]
    return value


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
