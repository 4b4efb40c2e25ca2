"""Exit codes of the command line, and the one way for a command to end with one: a line that names the trouble."""

from __future__ import annotations

from typing import Final

FINE: Final = 0
FOUND: Final = 1
"""What was asked for is there: something hangs, something cannot be seen."""
USAGE: Final = 2
"""A bad flag, file, URL or setting."""
UNREACHABLE: Final = 3
"""Kafka, the store or the service cannot be reached, the port to serve on is taken, or there is no room to write."""
PARTIAL: Final = 4
"""Nothing was found, and not everything could be judged."""


class CommandFailed(Exception):
    """Printed to stderr as one line; the process ends with `code`."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(text)
        self.code = code
