"""Exit codes of the command line, and the error with which a command ends: a single line that names the problem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from service.store.errors import StoreError, StoreUnavailable

FINE: Final = 0
FOUND: Final = 1
"""The command found what it searches for: something hangs, or something cannot be seen."""
USAGE: Final = 2
"""A bad flag, file, URL or setting, a store that cannot be used, or a request that the service refuses."""
UNREACHABLE: Final = 3
"""Kafka, the store, the service or a receiver cannot be reached, the port to serve on is taken, or output cannot be
written."""
PARTIAL: Final = 4
"""Nothing was found, but not everything could be judged."""


class CommandFailed(Exception):
    """The failure of a command. Its text is printed to stderr as one line; the process ends with `code`."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(text)
        self.code = code


@contextmanager
def store_failures() -> Iterator[None]:
    """Turns store errors of the block into CommandFailed: code 3 if the store does not answer; 2 if the store cannot be
    used.
    """
    try:
        yield
    except StoreUnavailable as error:
        raise CommandFailed(str(error), UNREACHABLE) from error
    except StoreError as error:
        raise CommandFailed(str(error)) from error
