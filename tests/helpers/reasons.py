"""Short forms of reasons, for tests."""

from __future__ import annotations

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import READ, ErrorText, NoPermission


def reason(said: Reason | str | None) -> Reason | None:
    """Returns the reason. A text becomes the error text of a broker or a library."""
    return ErrorText(said) if isinstance(said, str) else said


def denied(topic: str, *operations: str) -> NoPermission:
    """Returns the lack of permission for `operations` on a topic; READ if none are given."""
    return NoPermission(topic, operations or (READ,))
