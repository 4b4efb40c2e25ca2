"""The store's failures as the command line says them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from alembic.util import CommandError

from service.cli.errors import UNREACHABLE, CommandFailed
from service.store.errors import StoreError, StoreUnavailable


@contextmanager
def store_failures() -> Iterator[None]:
    """CommandFailed: 3 for a store that does not answer, 2 for one that cannot be used."""
    try:
        yield
    except StoreUnavailable as error:
        raise CommandFailed(str(error), UNREACHABLE) from error
    except StoreError as error:
        raise CommandFailed(str(error)) from error
    except CommandError as error:
        raise CommandFailed(f"the store was made by another version of txnscope: {error}") from error
