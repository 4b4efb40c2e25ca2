"""Tests that docs/causes.md explains every possible cause, and that the code gives the documented cause to each log on
that page."""

from __future__ import annotations

import ast
import inspect
import re
from operator import attrgetter
from pathlib import Path
from random import Random

import pytest

from service.domain.transaction_log import abort_explanation, causes, journal, states
from service.domain.transaction_log.causes import CauseCode, Confidence
from tests.helpers.paths import ROOT
from tests.service.domain.annotated import Annotated, Pair, annotated, judgement, while_open
from tests.service.domain.lives import a_life
from tests.service.domain.records import reported

TEXT = (ROOT / "docs" / "causes.md").read_text()
SECTIONS = {
    (word, confidence): body
    for word, confidence, body in re.findall(
        r"^### (\w+), (\w+)\n(.*?)(?=^##|\Z)", TEXT, flags=re.MULTILINE | re.DOTALL
    )
}


def logs(text: str) -> list[Annotated]:
    return [annotated(block) for block in re.findall(r"```log\n(.*?)```", text, flags=re.DOTALL)]


def possible_pairs() -> set[Pair]:
    """Returns the cause and the confidence of every `Cause(word, confidence, …)` call in `causes` and `journal`.

    If an expression or a function chooses the cause or the confidence, every value that it can choose is returned.
    """
    said: set[Pair] = set()
    for module in (causes, journal):
        for call in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("Cause", "causes.Cause"):
                word, confidence = call.args[:2]
                said |= {(CauseCode(one), Confidence(other)) for one in _values(word) for other in _values(confidence)}
    return said


def _values(expression: ast.expr) -> set[str]:
    if isinstance(expression, ast.Call):
        (chosen,) = (
            one
            for one in ast.walk(ast.parse(inspect.getsource(getattr(causes, ast.unparse(expression.func)))))
            if isinstance(one, ast.Return) and one.value is not None
        )
        assert chosen.value is not None
        return _values(chosen.value)
    if isinstance(expression, ast.IfExp):
        return _values(expression.body) | _values(expression.orelse)
    return {attrgetter(ast.unparse(expression).removeprefix("causes."))(causes)}


def test_every_cause_and_confidence_has_its_section() -> None:
    assert set(SECTIONS) == possible_pairs()


def test_every_cause_of_random_histories_is_explained() -> None:
    """`possible_pairs` searches the code for causes. The random histories show that the search misses none."""
    for seed in range(300):
        for row in reported(a_life(Random(seed), 60).log).rows:
            assert row.cause is None or (row.cause, row.confidence) in SECTIONS


@pytest.mark.parametrize("pair", SECTIONS, ids="-".join)
def test_the_logs_of_each_section_have_its_cause(pair: Pair) -> None:
    found = logs(SECTIONS[pair])
    said_last = {said.last for annotated in found for said in annotated.said.values()}
    assert pair in said_last | {heard for annotated in found for heard in while_open(annotated.records)}
    for records, said in found:
        assert judgement(records) == said
        assert reported(records).notes == [] or pair[0] == CauseCode.UNATTRIBUTED


SHAPES = re.findall(r"^\| `([^`]*\)[^`]*)` \| [^|]* \| (\w+), (\w+) \|", TEXT, flags=re.MULTILINE)


@pytest.mark.parametrize("shape", SHAPES, ids=" ".join)
def test_the_table_of_shapes_is_right(shape: tuple[str, str, str]) -> None:
    text, cause, confidence = shape
    rows = reported(text.replace(";", "\n")).rows
    ends = [row for row in rows if row.to_state in states.PREPARED] or rows
    assert {(row.cause, row.confidence) for row in ends} == {(cause, confidence)}


def test_the_test_reads_every_row_of_the_table_of_shapes() -> None:
    table = TEXT.partition("## What each shape of the log can mean")[2].partition("\n\nThree facts")[0]
    assert len(SHAPES) == table.count("\n| `") >= 19


def test_every_log_of_the_document_is_in_a_section() -> None:
    assert len(logs(TEXT)) == sum(len(logs(body)) for body in SECTIONS.values())


@pytest.mark.parametrize("pair", SECTIONS, ids="-".join)
def test_each_section_quotes_the_text_that_people_read(pair: Pair) -> None:
    quoted = " ".join(re.findall(r"^> (.*)$", SECTIONS[pair], flags=re.MULTILINE))
    assert quoted == (abort_explanation.why_ended(*pair) or "")


def test_the_document_has_the_words_and_times_of_the_code() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", TEXT, flags=re.MULTILINE)
    assert set(listed) == {word for word, _ in SECTIONS}
    assert f"within {causes.FOLLOWS_WITHIN_MS // 1_000} s of the CompleteAbort" in TEXT
    assert f"within {causes.RETURNS_WITHIN_MS // 1_000} s of the CompleteAbort" in TEXT
    assert f"at most {journal.SETTLES_AFTER_MS // 1_000} s after it completed" in TEXT
    assert f"or {journal.ADMIN_SETTLES_AFTER_MS // 1_000} s with such an Empty record" in TEXT
    assert {f"{timeout:,} ms" for timeout in states.ADMIN_TIMEOUTS_MS} <= set(re.findall(r"[\d,]+ ms", TEXT))
