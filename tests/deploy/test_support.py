"""Tests that docs/support.md names the versions that the project really uses."""

from __future__ import annotations

import re
import tomllib

from spark_jobs.runtime.java import OLDEST
from tests.helpers.brokers import EVERY_VERSION, VERSIONS
from tests.helpers.paths import ROOT

PAGE = (ROOT / "docs" / "support.md").read_text("utf-8")


def row(name: str) -> str:
    (found,) = re.findall(rf"^\| {name}.*$", PAGE, re.MULTILINE)
    return str(found)


def test_the_page_names_the_versions_that_are_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    order = sorted(EVERY_VERSION, key=lambda version: [int(part) for part in version.split(".")])
    assert f"{order[0]} to {order[-1]}" in row("Kafka brokers")
    assert all(version in row("Kafka brokers") for version in VERSIONS)
    assert f"| {project['requires-python'].removeprefix('>=')} or newer |" in row("Python")
    assert f"| {OLDEST} or newer |" in row("Java")
    assert f"pyspark=={re.findall(r'[0-9.]+', row('Spark'))[0]}" in project["optional-dependencies"]["spark"]
