"""Short functions that make reasons for tests."""

from __future__ import annotations

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import READ, ErrorText, NoPermission


def reason(said: Reason | str | None) -> Reason | None:
    """Returns `said` as a reason. A text becomes the error text of a broker or library; None stays None."""
    return ErrorText(said) if isinstance(said, str) else said


def denied(topic: str, *operations: str) -> NoPermission:
    """Returns a reason that says that a permission is missing: `operations` (default: READ) on a topic."""
    return NoPermission(topic, operations or (READ,))
