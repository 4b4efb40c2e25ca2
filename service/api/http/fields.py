"""Formats the fields of answers: ids and bytes (base64url without padding), times, links."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from service.domain.transaction_log.states import LAST_TIME_MS, is_time
from service.store.escaped_text import display_id
from service.views.addresses import encode_bytes, id_query


def decode_bytes(text: str) -> bytes | None:
    """Returns the bytes of a text that `encode_bytes` made, also if padding (`=`) follows it; None for any other
    text."""
    try:
        data = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (UnicodeEncodeError, binascii.Error):
        return None
    return data if encode_bytes(data) == text.rstrip("=") else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def id_text(transactional_id: bytes) -> str:
    """Returns the id itself if it is UTF-8, else its display form with escapes (`display_id`)."""
    try:
        return transactional_id.decode()
    except UnicodeDecodeError:
        return display_id(transactional_id)


def id_b64(transactional_id: bytes) -> str | None:
    """Returns the id's bytes as base64url if the id is not UTF-8, else None."""
    return None if id_text(transactional_id).encode() == transactional_id else encode_bytes(transactional_id)


def id_fields(transactional_id: bytes | None) -> tuple[str | None, str | None]:
    """Returns `id_text` and `id_b64`; both are None if there is no id."""
    if transactional_id is None:
        return None, None
    return id_text(transactional_id), id_b64(transactional_id)


@lru_cache(maxsize=4096)  # repeated answers contain mostly the same times
def text_of_time(ms: int | None) -> str | None:
    """Returns the time in RFC 3339, UTC, with milliseconds; None for a number that is no time."""
    return None if ms is None or not is_time(ms) else _text(ms)


def text_of_clock(ms: int) -> str:
    """Returns a time of one of our own clocks, in the format of `text_of_time`. A number that is no time becomes the
    first or the last possible time.
    """
    return _text(min(max(ms, 0), LAST_TIME_MS))


def _text(ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


API: Final = "/api/v1"


def cluster_link(cluster: str) -> str:
    return f"{API}/clusters/{quote(cluster, safe='')}"


def application_link(cluster: str, name: str) -> str:
    return f"{cluster_link(cluster)}/applications/{quote(name, safe='')}"


def transaction_link(cluster: str, transactional_id: bytes) -> str:
    return f"{cluster_link(cluster)}/transaction?{id_query(transactional_id)}"


def partition_link(cluster: str, topic: str, partition: int) -> str:
    return f"{cluster_link(cluster)}/partitions/{quote(topic, safe='')}/{partition}"
