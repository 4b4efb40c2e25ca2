"""The store's errors, and the redaction of passwords in the URLs that they show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy import URL

SECRETS: Final = ("password", "sslpassword")
"""Secret parameters in the query part of a store's URL."""

_IN_QUERY: Final = re.compile(r"(?i)(password=)[^&]*")
_CREDENTIALS: Final = re.compile(r"(?s)(^[^:/@]*:/*)?.*@")
"""Matches the part from the scheme to the last @ in a text that is no valid URL."""


class StoreError(Exception):
    """The store cannot be used as requested: the URL is wrong, the file is not a store, or the caller violates a
    precondition."""


class StoreNotMigrated(StoreError):
    """The store has no tables yet, or those of an older version. The application migrates the store when it starts."""


class StoreTooNew(StoreError):
    """A newer version of txnscope migrated the store, and this version can no longer use it."""


class StoreUnavailable(StoreError):
    """The store is locked, full, read-only or down. Nothing was written; the same call may succeed later."""


class StoreLost(StoreError):
    """The store was deleted or replaced since this process opened it, or is damaged: a job that writes to the store has
    to start again."""


class StoreReplaced(StoreLost):
    """The file that a writer has open was deleted or replaced: everything written there would be lost."""


class StoreDamaged(StoreLost):
    """The pages of the store are damaged. The store can be rebuilt, because the transaction log can be read again."""


class ClusterMismatch(StoreError):
    """The cluster's name is bound to another Kafka cluster, or the Kafka cluster to another name."""


class LeaseLost(StoreError):
    """The writer's lease was taken by another process, or released. The writer has to stop."""


class OutOfSequence(StoreError):
    """A batch does not fit the stored positions. Reading has to start again from the stored positions."""


def in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def redact_url(url: URL) -> str:
    """Returns the URL with *** for passwords."""
    return _IN_QUERY.sub(r"\1***", url.render_as_string(hide_password=True))


def redact_text(url: str) -> str:
    """Returns `url`, a text that is no valid URL, with *** in place of its credentials. User names are hidden too,
    because nothing shows where they end."""
    return _IN_QUERY.sub(r"\1***", _CREDENTIALS.sub(r"\1***@", url, count=1))
