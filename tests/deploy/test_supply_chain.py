"""Tests that the inputs of the build are pinned by version and hash, listed and licensed, and that the audit reports
what it could not check."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.compose.role_requirements import parse, role
from deploy.vulnerabilities import CLEAN, UNCHECKED, VULNERABLE, run
from tests.deploy.containerfile import lineage
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE: Final = (ROOT / "Makefile").read_text("utf-8")
APACHE_2: Final = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the Apache License 2.0 as its authors publish it."""


def test_tools_that_build_and_lock_are_in_the_lock_by_hash() -> None:
    locked = parse((ROOT / "requirements.lock").read_text("utf-8"))
    (backend,) = PROJECT["build-system"]["requires"]
    assert re.fullmatch(r"hatchling==[\d.]+", backend)
    assert locked["hatchling"].text.startswith(backend)
    for name in ("hatchling", "editables", "uv", "pip", "cyclonedx-bom", "pip-audit"):
        assert "--hash=sha256:" in locked[name].text, name


def test_packages_are_installed_by_hash_or_from_this_repository() -> None:
    """Without build isolation, hatchling from the lock builds the project. With build isolation, pip would get
    hatchling from the registry."""
    installs = re.findall(r"^\t.*pip\b.* install .*$", MAKEFILE, re.MULTILINE)
    installs += [
        line for name in ("build-service", "build-job") for stage in lineage(name) for line in stage.all("RUN")
    ]
    for line in (one for one in installs if re.search(r"\bpip\b.*\b(install|wheel)\b", one)):
        for command in re.split(r"&&", line):
            if re.search(r"\bpip\b.*\b(install|wheel)\b", command):
                by_hash = "--require-hashes" in command
                from_here = "--no-deps" in command and ("--no-build-isolation" in command or ".whl" in command)
                assert by_hash or from_here, command


def test_the_build_role_builds_a_wheel_with_its_licence(tmp_path: Path) -> None:
    """The build uses no package index, and the wheel has all licences."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    result = subprocess.run(
        [*build, "--wheel-dir", str(tmp_path), str(ROOT)], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert result.returncode == 0, result.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True, timeout=LIMIT_S, check=True
    ).stdout
    for name in ("licenses/LICENSE", "licenses/service/web/static/vendor/htmx.LICENSE", "vendor/vendored.toml"):
        assert name in names, name


def test_the_licence_is_apache_2() -> None:
    assert sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert all(list(ROOT.glob(pattern)) for pattern in PROJECT["project"]["license-files"])


def test_the_sbom_names_every_package_of_both_images(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    (command,) = re.findall(r"^sbom:.*\n\t@?\$\(BIN\)/cyclonedx-py (.+)$", MAKEFILE, re.MULTILINE)
    # the comparison with the schema takes 10 s, so only `make sbom` does it
    words = [
        *command.replace("$(BIN)/python", sys.executable).replace("sbom.cdx.json", str(file)).split(),
        "--no-validate",
    ]
    maker = Path(sys.executable).with_name("cyclonedx-py")
    result = subprocess.run(
        [str(maker), *words], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert result.returncode == 0, result.stderr
    sbom = json.loads(file.read_text("utf-8"))
    assert sbom["bomFormat"] == "CycloneDX"
    listed = {_normal(component["name"]): component.get("version") for component in sbom["components"]}
    here = {_normal(distribution.name): distribution.version for distribution in importlib.metadata.distributions()}
    service = parse(role(ROOT, ("service", "notify", "canary", "mcp", "otlp", "postgresql")))
    needed = {*service, *parse(role(ROOT, ("spark", "java", "postgresql")))}
    assert {name: listed.get(name) for name in needed & here.keys()} == {
        name: here[name] for name in needed & here.keys()
    }


@pytest.mark.parametrize(
    ("dependencies", "code", "text"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], CLEAN, "audit: 1 packages, no known vulnerability"),
        ([{"name": "a", "skip_reason": "not found"}], UNCHECKED, "1 of 1 packages were NOT checked"),
        ([], UNCHECKED, "0 of 0 packages were NOT checked"),
        (
            [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}],
            VULNERABLE,
            "a 1: CVE-1, fixed in 2",
        ),
        (
            [
                {"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": []}]},
                {"name": "b", "skip_reason": "not found"},
            ],
            VULNERABLE,
            "1 of 2 packages were NOT checked",
        ),
    ],
    ids=["clean", "unknown to the index", "empty", "vulnerable", "vulnerable and unknown"],
)
def test_the_audit_reports_what_it_could_not_check(dependencies: list[Any], code: int, text: str) -> None:
    ended, result = run(ask=lambda _: json.dumps({"dependencies": dependencies}))
    assert ended == code
    assert text in result


def test_an_audit_without_an_answer_reports_that_nothing_was_checked() -> None:
    code, result = run(ask=lambda _: None)
    assert code == UNCHECKED
    assert len(result.splitlines()) == 1
    assert "nothing was checked" in result


@pytest.mark.parametrize(("audit", "goes_on"), [(CLEAN, True), (UNCHECKED, True), (VULNERABLE, False)])
def test_ci_fails_only_for_a_vulnerability(audit: int, goes_on: bool) -> None:
    """CI goes on if the registry has no data about vulnerabilities."""
    command = ".venv/bin/python -m deploy.vulnerabilities"
    (line,) = (one for one in (ROOT / ".ci" / "run").read_text("utf-8").splitlines() if one.startswith(command))
    script = "set -euo pipefail; " + line.replace(command, f"bash -c 'exit {audit}'")
    assert (subprocess.run(["bash", "-c", script], timeout=LIMIT_S, check=False).returncode == 0) == goes_on


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
