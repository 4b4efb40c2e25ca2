"""How long to wait before the next try."""

from __future__ import annotations


class Backoff:
    """Pauses in seconds: the first is `first_s`, each next one twice as long, up to `longest_s`."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = min(first_s, longest_s), longest_s
        self._next_s = self._first_s

    def next_s(self) -> float:
        """The pause to make now."""
        pause_s = self._next_s
        self._next_s = min(pause_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """It went well for long enough: the next pause is the first one again."""
        self._next_s = self._first_s
