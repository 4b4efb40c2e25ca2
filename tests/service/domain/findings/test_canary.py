"""Tests that the canary's ids and topic are left out of findings."""

from __future__ import annotations

import pytest

from service.domain.findings.finding import RoundResult, Subject
from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import without_canary
from tests.helpers.findings import observe

OF_CANARY = (
    Subject(transactional_id=b"txnscope-canary-c0ffee12-7-2"),
    Subject("eu.txnscope-canary", 3, None, 7, 3, 100),
    Subject("eu.txnscope-canary", 3, group="invoices"),
    Subject(prefix="txnscope-canary-"),
)
OF_OTHERS = (
    Subject(),
    Subject(transactional_id=b"payments-1"),
    Subject("orders", 3, b"canary-1", 7, 3, 100),
    Subject(prefix="txnscope-"),
)


@pytest.mark.parametrize("kind", [Kind.HANGING, Kind.BLOCKED_GROUP, Kind.EXPIRING, Kind.CHURN])
def test_what_is_observed_of_the_canary_is_left_out_and_nothing_else(kind: Kind) -> None:
    seen = tuple(observe(kind, subject=subject) for subject in (*OF_CANARY, *OF_OTHERS))
    result = RoundResult(seen, frozenset({kind}))
    assert [observation.subject for observation in without_canary(result).observations] == list(OF_OTHERS)
    assert without_canary(result).kinds == result.kinds
