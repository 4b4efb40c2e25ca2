"""Tests that the recorder of the matrix can run in several processes."""

from __future__ import annotations

import pytest

from service.domain.findings.kinds import Kind
from tests.matrix import recorder


def test_the_recorder_keeps_kinds_as_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-xdist cannot send members of an enum to its main process."""
    told: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(recorder, "_told", told)
    recorder.tell(Kind.HANGING, "orders-0 hangs")
    assert [type(kind) for kind, _ in told] == [str]
