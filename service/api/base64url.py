"""Bytes as text that needs no escapes in an address: base64url without padding."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode


def encode_bytes(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def decode_bytes(text: str) -> bytes | None:
    """None if the text is not what `encode_bytes` makes."""
    try:
        data = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (UnicodeEncodeError, binascii.Error):
        return None
    return data if encode_bytes(data) == text.rstrip("=") else None
