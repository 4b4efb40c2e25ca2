"""The error that explains why a marker must not be written now."""

from __future__ import annotations


class Refused(Exception):
    """The marker must not be written now: the reason, in one line for people, and what they can do first."""

    def __init__(self, why: str, first: str | None = None) -> None:
        super().__init__(why if first is None else f"{why}. First {first}")
