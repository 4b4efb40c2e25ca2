"""Tests that the files and functions in the code walk of docs/architecture.md exist, and that every file and module
that a page names exists."""

from __future__ import annotations

import re

from tests.helpers.paths import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
NAMED = re.compile(r"`([\w/.]+\.py)`(?:: ((?:`[\w.]+`(?:, then | → |, )?)+))?")


def files(path: str) -> list[str]:
    """Returns the text of each file that `path` names, relative to the root or to a package. If no such file exists,
    searches the packages for files whose path ends with `path`, and returns the text of each."""
    below = [ROOT / path, ROOT / "spark_jobs" / path, ROOT / "service" / path]
    found = [file for file in below if file.exists()] or [
        file for room in ("service", "spark_jobs") for file in (ROOT / room).rglob(path)
    ]
    return [file.read_text() for file in found]


def test_every_file_and_function_of_the_walk_exists() -> None:
    named = [(path, re.findall(r"`([\w.]+)`", functions)) for path, functions in NAMED.findall(PAGE)]
    assert len(named) > 30
    lost = [path for path, _ in named if not files(path)]
    lost += [
        f"{path}: {name}"
        for path, names in named
        for name in names
        if not name.endswith(".py")
        and not any(re.search(rf"\b(?:def|class) {name.rpartition('.')[2]}\b", text) for text in files(path))
    ]
    assert lost == []


def test_every_file_and_module_that_a_page_names_exists() -> None:
    lost = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        for path in re.findall(r"`([\w/]+/[\w.]+\.py)`", page.read_text())
        if not (ROOT / path).exists() and not files(path)
    ]
    lost += [
        f"{page.relative_to(ROOT)}: {module}"
        for page in PAGES
        for module in re.findall(r"python -m ((?:service|spark_jobs|dashboards|deploy|tests)[\w.]*)", page.read_text())
        if not any((ROOT / module.replace(".", "/")).with_suffix(end).exists() for end in ("", ".py"))
    ]
    assert lost == []
