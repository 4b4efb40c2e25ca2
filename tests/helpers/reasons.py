"""Reasons as tests write them."""

from __future__ import annotations

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import READ, ErrorText, NoPermission


def reason(said: Reason | str | None) -> Reason | None:
    """Text is what a broker, or a library, said."""
    return ErrorText(said) if isinstance(said, str) else said


def denied(topic: str, *operations: str) -> NoPermission:
    """READ, if nothing else is said."""
    return NoPermission(topic, operations or (READ,))
