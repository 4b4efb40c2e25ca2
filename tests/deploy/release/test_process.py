"""Tests the steps of a release on a small project. Also tests that a failed release leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from deploy.release.build import digests
from deploy.release.commands import ReleaseError, git
from deploy.release.process import Project, Released, release

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "txnscope"
version = "0.9.0"
requires-python = ">=3.11"
dependencies = ["a-package>=1"]

[project.optional-dependencies]
service = []
spark = []
java = []
notify = []
canary = []
mcp = []
otlp = []
postgresql = []

[tool.hatch.build]
artifacts = ["service/revision.txt"]

[tool.hatch.build.targets.wheel]
packages = ["service"]
"""
LOCK = f"a-package==1.2 \\\n    --hash=sha256:{'0' * 64}\n    # via txnscope (pyproject.toml)\n"
MAKEFILE = 'release-chart:\n\t@echo "$(VERSION) $(REVISION)" > "$(DIST)/chart.txt"\nrelease-image release-docs:\n'
COMPOSE = "services:\n  job:\n    image: txnscope-job:0.9.0\n  service:\n    image: txnscope-service:0.9.0\n"
CHART = """version: 0.9.0
appVersion: 0.9.0
annotations:
  artifacthub.io/prerelease: "false"
  artifacthub.io/images: |
    - name: job
      image: txnscope-job:0.9.0
    - name: service
      image: txnscope-service:0.9.0
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout whose next release is 1.0.0."""
    made = tmp_path / "checkout"
    files = {
        "pyproject.toml": PYPROJECT,
        "requirements.lock": LOCK,
        "Makefile": MAKEFILE,
        "CHANGELOG.md": "# Changelog\n\n## 1.0.0 (unreleased)\n\n- A thing.\n",
        ".gitignore": "/dist/\n/service/revision.txt\n",
        "service/__init__.py": "",
        "promises.py": "",
        "deploy/compose/Containerfile": 'ARG VERSION="0.9.0"\n',
        "deploy/compose/compose.yml": COMPOSE,
        "deploy/helm/txnscope/Chart.yaml": CHART,
    }
    for name, text in files.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", str(made))
    for name, value in {"user.name": "t", "user.email": "t@example.org", "commit.gpgsign": "false"}.items():
        git(made, "config", name, value)
    git(made, "config", "tag.gpgsign", "false")
    commit(made, "first")
    return made


def commit(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)


def works(*_: object) -> None: ...


def released(root: Path, version: str = "1.0.0rc1") -> Released:
    return release(Project(root, ("promises",), works), version, works)


def everything(root: Path) -> tuple[str, ...]:
    """Returns commit, tags, file states and worktrees of the repository. A failed release must not change them."""
    return (
        git(root, "rev-parse", "HEAD"),
        git(root, "tag", "--list"),
        git(root, "status", "--porcelain", "--ignored"),
        git(root, "worktree", "list"),
    )


def test_a_release_is_one_commit_with_a_tag(root: Path) -> None:
    before = git(root, "rev-parse", "HEAD")
    made = released(root)
    assert git(root, "rev-parse", "HEAD") == git(root, "rev-parse", "v1.0.0rc1^{commit}") == made.commit
    assert git(root, "rev-parse", "HEAD~") == before
    assert git(root, "cat-file", "-t", "v1.0.0rc1") == "tag"
    assert 'version = "1.0.0rc1"' in (root / "pyproject.toml").read_text()
    assert (root / "deploy/compose/Containerfile").read_text() == 'ARG VERSION="1.0.0rc1"\n'
    assert (root / "deploy/compose/compose.yml").read_text() == COMPOSE.replace("0.9.0", "1.0.0rc1")
    chart = CHART.replace("0.9.0", "1.0.0rc1").replace("version: 1.0.0rc1", "version: 1.0.0-rc.1", 1)
    assert (root / "deploy/helm/txnscope/Chart.yaml").read_text() == chart.replace('"false"', '"true"')
    assert "## 1.0.0rc1 (" in (root / "CHANGELOG.md").read_text()
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "worktree", "list").count("\n") == 0


def test_the_files_have_their_revision_and_their_checksums(root: Path) -> None:
    made = released(root)
    wheel = made.folder / "txnscope-1.0.0rc1-py3-none-any.whl"
    assert zipfile.ZipFile(wheel).read("service/revision.txt").decode() == f"{made.commit}\n"
    assert (made.folder / "NOTES.md").read_text() == "- A thing.\n"
    sbom = json.loads((made.folder / "txnscope-1.0.0rc1.cdx.json").read_text())
    assert [(component["name"], component["version"]) for component in sbom["components"]] == [("a-package", "1.2")]
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=made.folder, check=True, capture_output=True)
    listed = {line.split()[1] for line in (made.folder / "SHA256SUMS").read_text().splitlines()}
    assert listed | {"SHA256SUMS"} == {file.name for file in made.folder.iterdir()}


def test_a_target_of_the_makefile_adds_its_files(root: Path) -> None:
    made = released(root)
    assert (made.folder / "chart.txt").read_text() == f"1.0.0rc1 {made.commit}\n"
    assert "chart.txt" in (made.folder / "SHA256SUMS").read_text()


def test_two_releases_of_one_commit_are_equal(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(root, "clone", "--quiet", str(root), str(other))
    for name in ("user.name", "user.email"):
        git(other, "config", name, git(root, "config", name))
    assert digests(released(root).folder) == digests(released(other).folder)


def test_the_version_follows_its_release_candidate(root: Path) -> None:
    released(root)
    made = released(root, "1.0.0")
    assert git(root, "tag", "--list").split() == ["v1.0.0", "v1.0.0rc1"]
    assert (made.folder / "NOTES.md").read_text() == "No change since the last release candidate.\n"
    with pytest.raises(ReleaseError, match=r"the tag v1\.0\.0 already exists"):
        released(root, "1.0.0rc2")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("new.txt", "", "the tree is not clean"),
        ("pyproject.toml", PYPROJECT + "\n", "the tree is not clean"),
    ],
)
def test_a_tree_that_is_not_clean_is_refused(root: Path, name: str, text: str, complaint: str) -> None:
    (root / name).write_text(text)
    before = everything(root)
    with pytest.raises(ReleaseError, match=complaint):
        released(root)
    assert everything(root) == before


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("CHANGELOG.md", "# Changelog\n\n## 1.1.0 (unreleased)\n\n- More.\n", "not 1.0.0"),
        ("promises.py", "raise SystemExit('metrics: up is gone')\n", "metrics: up is gone"),
        ("Makefile", "release-image:\n\t@echo no space; exit 1\n", "no space"),
        ("Makefile", MAKEFILE.replace("release-docs", ""), "No rule to make target 'release-docs'"),
        ("pyproject.toml", PYPROJECT.replace("[tool.hatch.build]", "[tool.hatch.build]\nsources = 5"), "failed"),
        ("pyproject.toml", PYPROJECT.replace('version = "0.9.0"', 'dynamic = ["version"]'), "0 times, not once"),
    ],
    ids=["changelog", "promises", "a target fails", "no target", "build", "version"],
)
def test_a_failure_leaves_nothing_behind(root: Path, name: str, text: str, complaint: str) -> None:
    (root / name).write_text(text)
    commit(root, "worse")
    before = everything(root)
    with pytest.raises(ReleaseError, match=complaint):
        released(root)
    assert everything(root) == before


def test_a_wheel_that_does_not_work_is_not_released(root: Path) -> None:
    before = everything(root)

    def fails(wheel: Path, *_: object) -> None:
        assert wheel.exists()
        raise ReleaseError("it does not serve")

    with pytest.raises(ReleaseError, match="it does not serve"):
        release(Project(root, (), fails), "1.0.0", works)
    assert everything(root) == before


def test_a_tag_that_cannot_be_signed_is_not_released(root: Path) -> None:
    git(root, "config", "tag.gpgsign", "true")
    git(root, "config", "gpg.program", "false")
    before = everything(root)
    with pytest.raises(ReleaseError, match="tag"):
        released(root)
    assert everything(root) == before


def test_a_commit_that_is_made_meanwhile_is_not_released(root: Path) -> None:
    def commits(*_: object) -> None:
        (root / "CHANGELOG.md").write_text("changed meanwhile\n")
        commit(root, "meanwhile")

    with pytest.raises(ReleaseError, match="merge"):
        release(Project(root, (), commits), "1.0.0", works)
    assert git(root, "log", "--format=%s", "-1") == "meanwhile"
    assert git(root, "tag", "--list") == ""
    assert not (root / "dist" / "1.0.0").exists()


def test_a_build_that_differs_is_not_released(root: Path) -> None:
    """The build hook of this project writes the path of the build folder, which differs between two builds."""
    hook = "from hatchling.builders.hooks.plugin.interface import BuildHookInterface as B\n"
    hook += "class Hook(B):\n    def initialize(self, version, build_data):\n"
    hook += "        open('service/where.py', 'w').write(f'ROOT = {self.root!r}')\n"
    (root / "hatch_build.py").write_text(hook)
    (root / "pyproject.toml").write_text(PYPROJECT + "\n[tool.hatch.build.hooks.custom]\n")
    commit(root, "a hook")
    before = everything(root)
    with pytest.raises(ReleaseError, match="a second build differs: txnscope-1"):
        released(root, "1.0.0")
    assert everything(root) == before
