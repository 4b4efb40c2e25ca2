"""Growing pauses between retries."""

from __future__ import annotations


class Backoff:
    """Pauses in seconds: the first is `first_s`, each next one twice as long, up to `longest_s`."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = min(first_s, longest_s), longest_s
        self._next_s = self._first_s

    def next_s(self) -> float:
        """Returns the pause to make now, and doubles the next one."""
        pause_s = self._next_s
        self._next_s = min(pause_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Makes the next pause the first one again; to be called when all went well for long enough."""
        self._next_s = self._first_s
