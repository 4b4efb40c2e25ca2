"""Why a marker must not be written now."""

from __future__ import annotations


class Refused(Exception):
    """It must not be done now: why, one line for people, and what may be done first."""

    def __init__(self, why: str, first: str | None = None) -> None:
        super().__init__(why if first is None else f"{why}. First {first}")
