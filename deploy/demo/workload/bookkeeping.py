"""The workload's own record of its transactions under every transactional.id: the expected values for checks of the
product."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

AbortKind = Literal["client", "timeout", "fenced"]
Participant = tuple[str, int]
"""A partition that takes part in a transaction: (topic, partition)."""


class Aborts(NamedTuple):
    """Number of aborted transactions by cause: the client, the timeout, or fencing."""

    client: int = 0
    timeout: int = 0
    fenced: int = 0


class Account(NamedTuple):
    """The record of one transactional.id. Counts only transactions that have ended.

    `empty_aborts`: number of EndTxn(abort) requests without any partition added (KIP-890). Kafka writes a record for
    each, although there was no transaction. `participants`: every partition that was ever part of a transaction of the
    id, sorted. `state`: the state that DescribeTransactions must return once all markers are written; None while a
    transaction may be open.
    """

    app: str
    commits: int
    aborts: Aborts
    empty_aborts: int
    participants: tuple[Participant, ...]
    state: str | None


WorkloadRecord = dict[str, Account]
"""The accounts of a workload, keyed by transactional.id, in the order of the ids."""


class Book:
    """The book in which one application records its transactions. Not to be shared between threads."""

    def __init__(self, app: str) -> None:
        self._app = app
        self._accounts: dict[str, Account] = {}

    def initialised(self, transactional_id: str) -> None:
        """Records that InitProducerId was answered. From then on the id exists, and no transaction is open."""
        self._change(transactional_id, state="Empty")

    def began(self, transactional_id: str, participants: Iterable[Participant]) -> None:
        """Records the begin of a transaction. The id's state is unknown until one of the methods below records the
        transaction's end."""
        known = self._account(transactional_id).participants
        self._change(transactional_id, participants=tuple(sorted({*known, *participants})), state=None)

    def committed(self, transactional_id: str) -> None:
        commits = self._account(transactional_id).commits + 1
        self._change(transactional_id, commits=commits, state="CompleteCommit")

    def aborted(self, transactional_id: str, kind: AbortKind) -> None:
        aborts = self._account(transactional_id).aborts
        self._change(
            transactional_id, aborts=aborts._replace(**{kind: getattr(aborts, kind) + 1}), state="CompleteAbort"
        )

    def aborted_nothing(self, transactional_id: str) -> None:
        empty_aborts = self._account(transactional_id).empty_aborts + 1
        self._change(transactional_id, empty_aborts=empty_aborts, state="CompleteAbort")

    def _account(self, transactional_id: str) -> Account:
        return self._accounts.get(transactional_id) or Account(self._app, 0, Aborts(), 0, (), None)

    def _change(self, transactional_id: str, **changes: Any) -> None:
        self._accounts[transactional_id] = self._account(transactional_id)._replace(**changes)

    def accounts(self) -> dict[str, Account]:
        return dict(self._accounts)


def merged(books: Iterable[Book]) -> WorkloadRecord:
    """Returns the record of all books, which share no transactional.id."""
    everything = {key: account for book in books for key, account in book.accounts().items()}
    return dict(sorted(everything.items()))
