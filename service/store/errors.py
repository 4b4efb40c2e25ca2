"""The errors of a store, and how they name it: its URL without passwords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy import URL

SECRETS: Final = ("password", "sslpassword")
"""Settings that are secret, where the URL has them behind the question mark."""

_IN_QUERY: Final = re.compile(r"(?i)(password=)[^&]*")
_CREDENTIALS: Final = re.compile(r"(?s)(^[^:/@]*:/*)?.*@")
"""Matches, in a text that no parser takes for a URL, everything after the scheme up to the last @."""


class StoreError(Exception):
    """The store cannot be used as asked: the URL is bad, the file is foreign, or the caller broke a promise."""


class StoreUnavailable(StoreError):
    """The store is locked, full or down. Nothing was written; the same call may succeed later."""


class StoreLost(StoreError):
    """The store is not what it was when this process opened it: a writer has to start again from the beginning."""


class StoreReplaced(StoreLost):
    """The file that a writer has open was deleted or replaced: what it writes there would be lost."""


class StoreDamaged(StoreLost):
    """The pages of the store do not fit together. It can be made anew, because the transaction log is the truth."""


class ClusterMismatch(StoreError):
    """The cluster's name is bound to another Kafka cluster, or the Kafka cluster to another name."""


class LeaseLost(StoreError):
    """Another driver holds the lease and writes now; this one has to stop."""


class OutOfSequence(StoreError):
    """A batch does not begin at the store's progress; reading has to start again from there."""


def in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def redact_url(url: URL) -> str:
    """Returns the URL with *** for passwords."""
    return _IN_QUERY.sub(r"\1***", url.render_as_string(hide_password=True))


def redact_text(url: str) -> str:
    """Hides the credentials of a text that is no URL as `redact_url` does. User names go too, because nothing shows
    where they end."""
    return _IN_QUERY.sub(r"\1***", _CREDENTIALS.sub(r"\1***@", url, count=1))
