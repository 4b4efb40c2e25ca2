"""Tests that `resolve` is refused while a coordinator may still end a transaction that was left behind. The
coordinators' answers are stubs."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.partitions.open_entries import Owner
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogRecord
from service.remediation import checks
from tests.helpers.stores import NOW_MS

_RECORD = LogRecord(7, NOW_MS, 5, states.ONGOING, 7, 3, 60_000, NOW_MS, NOW_MS, 2, -1, 1)
OWNER = Owner(b"pay", 0, 0, _RECORD, (("orders", 0),), NOW_MS, NOW_MS, 3, 3, None, None, None, is_left_behind=True)
CLIENT: Any = object()


@pytest.mark.parametrize(("is_unknown", "restarts"), [(False, True), (None, False)])
def test_a_restart_is_advised_only_if_a_coordinator_knows_the_transaction(
    monkeypatch: pytest.MonkeyPatch, is_unknown: bool | None, restarts: bool
) -> None:
    monkeypatch.setattr(checks, "no_coordinator_knows", lambda *_: is_unknown)
    with pytest.raises(checks.Refused) as refused:
        checks._refuse_while_known(OWNER, CLIENT)
    assert ("restart every broker" in str(refused.value)) is restarts
    assert ("DESCRIBE on the id" in str(refused.value)) is not restarts


def test_a_transaction_that_no_coordinator_knows_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "no_coordinator_knows", lambda *_: True)
    checks._refuse_while_known(OWNER, CLIENT)
