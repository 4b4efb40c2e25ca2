"""What can go wrong with the store, in one line each."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot be used as asked: a bad URL, a foreign file, a broken promise of the caller."""


class StoreUnavailable(StoreError):
    """Locked, full or down: nothing was written; the same call may succeed later."""


class ClusterMismatch(StoreError):
    """The name is bound to another Kafka cluster."""


class LeaseLost(StoreError):
    """Another driver writes now; this one has to stop."""


class OutOfSequence(StoreError):
    """A batch does not begin where the store stands; reading has to start again at the store's progress."""
