"""The errors of a store."""

from __future__ import annotations


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
    """Returns the error's message in one line, without the statement that PostgreSQL repeats below it."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return " ".join((primary or str(error)).split()) or type(error).__name__
