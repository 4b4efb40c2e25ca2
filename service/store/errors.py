"""The errors of the store; the text of each is one line."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot be used as asked: the URL is bad, the file is foreign, or the caller broke a promise."""


class StoreUnavailable(StoreError):
    """The store is locked, full or down. Nothing was written; the same call may succeed later."""


class ClusterMismatch(StoreError):
    """The cluster's name is bound to another Kafka cluster."""


class LeaseLost(StoreError):
    """Another driver holds the lease and writes now; this one has to stop."""


class OutOfSequence(StoreError):
    """A batch does not begin at the store's progress; reading has to start again from there."""
