"""Tests that packages import each other only in the allowed directions (docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import Final

import pytest

from tests.helpers.paths import ROOT

FRAMEWORKS = {
    "fastapi",
    "starlette",
    "pydantic",
    "sqlalchemy",
    "alembic",
    "pyspark",
    "kafka",
    "confluent_kafka",
    "uvicorn",
}


def imports(folder: str) -> list[tuple[str, str]]:
    """Returns (file, imported module) for every import below `folder`, including imports inside functions. For `from x
    import y`, returns `x` and `x.y`. Asserts that there are imports, and no relative ones."""
    found = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            name = str(file.relative_to(ROOT))
            if isinstance(node, ast.Import):
                found += [(name, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}: relative import"
                found.append((name, node.module or ""))
                found += [(name, f"{node.module}.{alias.name}") for alias in node.names]
    assert found, f"no imports found below {folder}: was the package moved?"
    return found


def within(module: str, *packages: str) -> bool:
    return any(module == p or module.startswith(p + ".") for p in packages)


def test_the_service_knows_nothing_of_spark() -> None:
    assert [i for i in imports("service") if within(i[1], "spark_jobs", "pyspark")] == []


def test_the_product_knows_nothing_of_the_demo_or_the_tests() -> None:
    product = imports("service") + imports("spark_jobs")
    assert [i for i in product if within(i[1], "deploy", "tests")] == []


@pytest.mark.parametrize("room", ["service/wire", "service/domain"])
def test_pure_packages_import_no_framework_and_no_other_package(room: str) -> None:
    own = room.replace("/", ".")
    foreign = [i for i in imports(room) if within(i[1], "service", "spark_jobs") and not within(i[1], own)]
    # `from service.wire import x` is listed twice, first as an import of `service.wire`
    assert [i for i in foreign if i[1] != own] == []
    assert [i for i in imports(room) if within(i[1], *FRAMEWORKS)] == []


def test_only_one_package_imports_the_kafka_client() -> None:
    product = imports("service") + imports("spark_jobs")
    outside = [i for i in product if within(i[1], "kafka") and not i[0].startswith("service/kafka/")]
    assert outside == []


def test_only_one_package_imports_the_libraries_of_opentelemetry() -> None:
    libraries = ("opentelemetry", "google.protobuf")
    product = imports("service") + imports("spark_jobs")
    assert [i for i in product if within(i[1], *libraries) and not i[0].startswith("service/otlp/")] == []
    settings = [i for i in imports("service/otlp") if i[0].endswith("configuration.py")]
    assert settings
    assert [i for i in settings if within(i[1], *libraries)] == [], (
        "the settings must be readable without the extra `otlp`"
    )


def test_views_know_no_http_and_no_html() -> None:
    outside = ("service.api", "service.web", "service.cli", "service.metrics", "service.server")
    frameworks = ("fastapi", "starlette", "pydantic", "jinja2", "markupsafe")
    assert [i for i in imports("service/views") if within(i[1], *outside, *frameworks)] == []


@pytest.mark.parametrize("room", ["service/domain", "service/kafka", "service/store", "service/wire"])
def test_packages_below_views_import_no_views(room: str) -> None:
    assert [i for i in imports(room) if within(i[1], "service.views")] == []


def test_pages_and_commands_use_no_route() -> None:
    assert [
        i for room in ("web", "cli") for i in imports(f"service/{room}") if within(i[1], "service.api.routes")
    ] == []


def test_tools_for_models_know_rest_and_nothing_below_it() -> None:
    """Only REST may decide what a tool may see, because REST knows who sent the request."""
    rooms = ("service.mcp", "service.domain", "service.views", "service.access.needs", "service.api.http.fields")
    used = [i for i in imports("service/mcp") if within(i[1], "service") and i[1] != "service"]
    assert [i for i in used if not within(i[1], *rooms) and not i[1].startswith("service.api.http.fields")] == []


def test_only_the_command_and_its_package_import_the_extra_for_models() -> None:
    """If the extra is not installed, all other commands have to work."""
    places = ("service/mcp/", "service/cli/commands/mcp.py")
    product = imports("service") + imports("spark_jobs")
    assert [i for i in product if within(i[1], "mcp", "mcp_types") and not i[0].startswith(places)] == []


def test_spark_jobs_import_only_allowed_packages() -> None:
    judged = "service.views.partitions.judged"  # the application and the pages judge partitions with the same code
    rooms = [f"service.{room}" for room in ("wire", "kafka", "domain", "store", "processes", "clock", "settings")]
    used = [i for i in imports("spark_jobs") if within(i[1], "service") and i[1] != "service"]
    assert [i for i in used if not within(i[1], *rooms, judged) and i[1] not in judged] == []


def test_executors_load_neither_web_framework_nor_database() -> None:
    """To run a task, an executor imports the sources, and all modules that the sources import."""
    heavy = "{'fastapi', 'sqlalchemy', 'uvicorn', 'alembic', 'httpx2'}"
    sources = "spark_jobs.source.transaction_log, spark_jobs.source.partitions, spark_jobs.source.ledger"
    code = f"import sys, {sources}; print({heavy} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_every_package_says_what_it_is_for() -> None:
    packages = [
        file
        for room in ("service", "spark_jobs", "deploy", "dashboards")
        for file in ROOT.glob(f"{room}/**/__init__.py")
    ]
    silent = [str(file.relative_to(ROOT)) for file in packages if not ast.get_docstring(ast.parse(file.read_text()))]
    assert silent == []


DIRECTION: Final = ("reasons", "transaction_log", "canary", "partitions", "worlds", "findings", "doctor")
"""The packages of the domain. Each may import only packages before it."""


def test_packages_of_the_domain_import_in_one_direction() -> None:
    packages = {path.name for path in (ROOT / "service" / "domain").iterdir() if (path / "__init__.py").exists()}
    assert packages == set(DIRECTION)
    back = [
        (file, module)
        for at, package in enumerate(DIRECTION)
        for file, module in imports(f"service/domain/{package}")
        if within(module, *(f"service.domain.{later}" for later in DIRECTION[at + 1 :]))
    ]
    assert back == []
