"""Tests that only service/store/backends names a database. A third database needs a module in service/store/backends
and a line in URL_FORMS."""

from __future__ import annotations

import re

import pytest

from service.store.backends import URL_FORMS, backends
from tests.helpers.paths import ROOT

BACKENDS = ROOT / "service" / "store" / "backends"
OWN_FILE = ROOT / "spark_jobs" / "source" / "window.py"
"""The only module outside BACKENDS that names SQLite. It shares data between Spark's workers in a small SQLite file,
which is not a store."""
DATABASE = re.compile(r"(?i)sqlite|postgres|psycopg|libpq|dialect\.name")


def test_no_other_package_names_a_database() -> None:
    files = [file for package in ("service", "spark_jobs") for file in sorted((ROOT / package).rglob("*.py"))]
    assert any(BACKENDS in file.parents for file in files)
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        if BACKENDS not in file.parents and file != OWN_FILE
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if DATABASE.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("name", URL_FORMS)
def test_each_database_has_the_name_of_its_url(name: str) -> None:
    assert URL_FORMS[name].startswith(f"{name}://")
    assert DATABASE.search(name) is not None, "DATABASE has to match this name, or the test above does not find it"
    assert backends()[name]
