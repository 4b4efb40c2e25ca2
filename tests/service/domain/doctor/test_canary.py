"""Tests of the lines of doctor about the canary's principal."""

from __future__ import annotations

import pytest

from service.domain.doctor.acls import Acl
from service.domain.doctor.canary import CanaryReport, canary_lines
from service.domain.doctor.lines import GAP, NOTE, OK

ALL = CanaryReport("txnscope-canary", frozenset({"READ", "WRITE", "DELETE"}), None, True, True, True)
NEW = CanaryReport("txnscope-canary", None, True, True, True, True)


def marks(report: CanaryReport) -> list[str]:
    return [line.mark for line in canary_lines(report)]


def missing(report: CanaryReport) -> list[Acl]:
    return [acl for line in canary_lines(report) for acl in line.missing]


def test_a_principal_that_may_do_everything_has_no_gap() -> None:
    assert marks(ALL) == [OK, OK, OK]
    assert marks(NEW) == [OK, OK, NOTE]
    assert missing(NEW) == []


@pytest.mark.parametrize(
    ("report", "wanted"),
    [
        (CanaryReport("t", ALL.operations, None, False, True, True), [("__transaction_state", "Describe")]),
        (CanaryReport("t", ALL.operations, None, True, False, True), [("txnscope-canary-", "Write")]),
        (CanaryReport("t", ALL.operations, None, True, True, False), [("txnscope-canary-", "Write")]),
        (CanaryReport("t", frozenset({"WRITE"}), None, True, True, True), [("t", "Read")]),
        (CanaryReport("t", None, False, True, True, True), [("t", "Create"), ("t", "Read"), ("t", "Write")]),
    ],
    ids=["log", "ids", "ids are hidden", "topic", "no topic"],
)
def test_what_is_missing_is_granted_by_name(report: CanaryReport, wanted: list[tuple[str, str]]) -> None:
    assert GAP in marks(report)
    assert [(acl.name, acl.operation) for acl in missing(report)] == wanted


def test_the_canary_works_without_delete_and_says_what_stays() -> None:
    (note,) = [
        line
        for line in canary_lines(CanaryReport("t", frozenset({"READ", "WRITE"}), None, True, True, True))
        if line.mark == NOTE
    ]
    assert "retention" in note.text
    assert note.missing == ()


def test_brokers_that_do_not_answer_are_a_gap() -> None:
    (line,) = canary_lines(CanaryReport("t", why="broker 1 does not answer"))
    assert (line.mark, "broker 1 does not answer" in line.text) == (GAP, True)
