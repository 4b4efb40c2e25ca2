"""Only service/store/backends knows the databases: to support a third one, add a module there, and a line for its
URL."""

from __future__ import annotations

import re

import pytest

from service.store.backends import URL_FORMS, backends
from tests.helpers.paths import ROOT

BACKENDS = ROOT / "service" / "store" / "backends"
OWN_FILE = ROOT / "spark_jobs" / "source" / "window.py"
"""A module that keeps the data shared by Spark's workers in a small SQLite file, which is no store."""
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
    assert DATABASE.search(name) is not None, "else the test above does not find it"
    assert backends()[name]
