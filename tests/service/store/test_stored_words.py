"""Tests that a stored word is added only with a migration that shuts out the versions of txnscope that cannot read the
word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest

from service.access.actions import Action, Outcome
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.states import NAMES
from service.store import migrate

WORDS: Final[dict[str, Iterable[str]]] = {
    "states": NAMES.values(),
    "causes": CauseCode,
    "confidences": Confidence,
    "actions": Action,
    "outcomes": Outcome,
}

READ_BY: Final = {
    "r0001": {
        "states": "Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort Unknown Expired",
        "causes": "commit client_abort timeout fenced admin empty_abort unattributed expired initialized pid_rotated",
        "confidences": "certain likely ambiguous",
        "actions": "resolve mute acknowledge key authenticate authorize",
        "outcomes": "begun written refused unknown dry_run set ended created revoked",
    },
}
"""A mapping from the revision of a store to the stored words that the version of txnscope with this revision reads.
Words of findings are not listed, because every version leaves out findings with words that it does not know."""


@pytest.mark.parametrize("sort", WORDS)
def test_the_oldest_version_that_may_use_the_store_reads_every_word(sort: str) -> None:
    since = migrate.readable_since_of(migrate.head() or "")
    assert set(READ_BY[since][sort].split()) == {str(word) for word in WORDS[sort]}, (
        f"a version of revision {since} does not read these {sort}: add a migration whose `readable_since` is its own"
        " revision, and the words of that revision here"
    )
