"""Tests that no code parses text that was written for people. Code has to decide by facts, reasons and kinds
(docs/adr/0013, docs/adr/0024)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from service.domain.findings.finding import Evidence, Words
from service.domain.worlds.verdict import Proof
from tests.helpers.paths import ROOT

MADE_FOR_PEOPLE = re.compile(r"\b(Sentence|Reason)\b")
"""Matches the type annotations of text for people: `Sentence` and `Reason`."""

SEARCHES = {"startswith", "endswith", "partition", "rpartition", "split", "find", "index", "contains", "like"}
MATCHES = {"search", "match", "fullmatch", "findall", "sub"}
MAKERS = {"formatting.py"}
"""Files whose code makes the text for people. The test does not check these files."""

ALSO_CODES = {"reason"}
"""Attributes that are a `Reason` in one class and a code in another, such as the reason of a data gap."""


@cache
def files() -> tuple[tuple[Path, ast.Module], ...]:
    found = [file for room in ("service", "spark_jobs") for file in sorted((ROOT / room).rglob("*.py"))]
    return tuple((file, ast.parse(file.read_text())) for file in found if "migrations" not in file.parts)


@cache
def sentences() -> frozenset[str]:
    """Returns the names of attributes that hold text for people: attributes and decorated methods annotated with a type
    in MADE_FOR_PEOPLE, the fields of `Words`, and the text of evidence and proofs. Leaves out the names in
    ALSO_CODES."""
    found = {name for kind in (Words, Evidence, Proof) for name in kind._fields if name in (*Words._fields, "text")}
    for _, tree in files():
        for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            for node in cls.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    name, declared = node.target.id, node.annotation
                elif isinstance(node, ast.FunctionDef) and node.returns is not None and node.decorator_list:
                    name, declared = node.name, node.returns
                else:
                    continue
                if MADE_FOR_PEOPLE.search(ast.unparse(declared)):
                    found.add(name)
    return frozenset(found - ALSO_CODES)


def read_by_code(tree: ast.AST) -> Iterator[int]:
    """Yields the lines that search, split, slice or match text for people, or compare it with a string. The text may be
    an attribute, or a local variable to which the attribute was assigned."""
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]
    for scope in scopes:
        named = {
            target.id
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign) and is_sentence(node.value, set()) and scope is not tree
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(scope):
            if operates(node, named):
                assert isinstance(node, ast.expr)
                yield node.lineno


def operates(node: ast.AST, named: set[str]) -> bool:
    def reads(one: ast.AST) -> bool:
        return is_sentence(one, named)

    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        is_searched = node.func.attr in SEARCHES and reads(node.func.value)
        return is_searched or (node.func.attr in MATCHES and any(map(reads, node.args)))
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and reads(node.value)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        has_text = any(isinstance(side, ast.JoinedStr) or is_text(side) for side in sides)
        is_within = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops) and reads(node.comparators[-1])
        return is_within or (has_text and any(map(reads, sides)))
    return False


def is_sentence(node: ast.AST, named: set[str]) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        node = node.args[0]
    if isinstance(node, ast.Name):
        return node.id in named
    return isinstance(node, ast.Attribute) and node.attr in sentences()


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def test_no_code_reads_a_fact_from_a_sentence() -> None:
    found = {
        f"{file.relative_to(ROOT)}:{line}"
        for file, tree in files()
        if file.name not in MAKERS
        for line in read_by_code(tree)
    }
    assert found == set()


def test_fields_that_are_sentences_are_known_by_their_type() -> None:
    assert {"summary", "title", "advice", "text", "why", "read_why", "error", "open_question"} <= sentences()
    assert not {"kind", "status", "subject", "facts", "source", "names"} & sentences()


def test_the_check_finds_every_way_of_reading_a_sentence() -> None:
    for code in (
        "DENIED in finding.summary",
        "one.why.startswith('not watched')",
        "select(t).where(_D.why.contains(DENIED))",
        "PATTERN.search(status.error)",
        "cause, _, more = evidence.text.partition('. Decision: ')",
        "row.why == 'no leader'",
        "str(row.why).split(' ')",
        "finding.observation.detail[:1]",
    ):
        assert list(read_by_code(ast.parse(code)))[:1] == [1], code
    assert set(read_by_code(ast.parse("def f(one):\n    words = one.title\n    return words.split()"))) == {3}
    for code in ("row.why is None", "one.why == other.why", "isinstance(one.why, NoPermission)"):
        assert list(read_by_code(ast.parse(code))) == [], code
