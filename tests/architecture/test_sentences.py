"""No code reads what was written for people: it asks reasons and kinds (docs/adr/0013)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.helpers.paths import ROOT

SENTENCES = {"summary", "advice", "why", "read_why", "error", "text", "open_question", "trouble"}
"""Attributes that hold what people read."""

SEARCHES = {"startswith", "endswith", "partition", "rpartition", "split", "find", "index", "contains", "like"}
MATCHES = {"search", "match", "fullmatch", "findall", "sub"}


def read_by_code(tree: ast.AST) -> Iterator[int]:
    """Lines where a sentence is searched, split, matched, or compared with text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_searched = node.func.attr in SEARCHES and is_sentence(node.func.value)
            is_matched = node.func.attr in MATCHES and any(map(is_sentence, node.args))
            if is_searched or is_matched:
                yield node.lineno
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            has_text = any(isinstance(side, ast.JoinedStr) or is_text(side) for side in sides)
            is_within = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops) and is_sentence(node.comparators[-1])
            if is_within or (has_text and any(map(is_sentence, sides))):
                yield node.lineno


def is_sentence(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in SENTENCES


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def test_nothing_is_found_out_from_a_sentence() -> None:
    files = [file for room in ("service", "spark_jobs") for file in sorted((ROOT / room).rglob("*.py"))]
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in files
        if "migrations" not in file.parts
        for line in read_by_code(ast.parse(file.read_text()))
    ]
    assert found == []


def test_the_test_finds_what_it_is_meant_to_find() -> None:
    for code in (
        "DENIED in finding.summary",
        "one.why.startswith('not watched')",
        "select(t).where(_D.why.contains(DENIED))",
        "PATTERN.search(status.error)",
        "cause, _, more = evidence.text.partition('. Decision: ')",
        "row.why == 'no leader'",
    ):
        assert list(read_by_code(ast.parse(code))) == [1], code
    for code in ("row.why is None", "one.why == other.why", "isinstance(one.why, NoPermission)"):
        assert list(read_by_code(ast.parse(code))) == [], code
