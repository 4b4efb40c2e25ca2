"""Tests that `txnscope --version` names the revision of the source, and says "unknown" if no file shows the
revision."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from service.cli import main
from service.cli.version import UNKNOWN, revision, version

COMMIT = "93bb668fe39e04a2f3d1b6c5a7988990a1b2c3d4"
SHOWN = COMMIT[:12]


class Installed(Distribution):
    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def read_text(self, filename: str) -> str | None:
        return self._files.get(filename)

    def locate_file(self, path: Any) -> Any:
        return path


def not_installed(name: str) -> Distribution:
    raise PackageNotFoundError(name)


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of an installed package `service`. No file names the revision or the checkout of the package."""
    made = tmp_path / "site-packages" / "service"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    made = tmp_path / "checkout"
    (made / "service").mkdir(parents=True)
    (made / "pyproject.toml").write_text("[project]\n")
    git(tmp_path, "init", "--quiet", str(made))
    git(made, "add", "pyproject.toml")
    git(made, "commit", "--quiet", "--message", "first")
    return made


def test_the_version_is_printed_with_its_revision(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["--version"])
    assert ending.value.code == 0
    printed = re.escape(f"txnscope {version()}, revision ") + r"(unknown|[0-9a-f]{12}(, modified)?)\n"
    assert re.fullmatch(printed, capsys.readouterr().out)


def test_an_installed_package_has_the_revision_that_its_build_wrote(package: Path) -> None:
    (package / "revision.txt").write_text(f"{COMMIT}\n")
    assert revision(package, not_installed) == SHOWN


def test_what_pip_recorded_of_a_repository_is_the_revision(package: Path) -> None:
    recorded = {"url": "file:///somewhere", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}
    assert revision(package, lambda _: Installed({"direct_url.json": json.dumps(recorded)})) == SHOWN


@pytest.mark.parametrize("text", ["", "main\n", f"{COMMIT}\n{COMMIT}\n", "unknown", "g" * 40])
def test_a_file_with_anything_but_a_commit_says_nothing(package: Path, text: str) -> None:
    (package / "revision.txt").write_text(text)
    assert revision(package, not_installed) == UNKNOWN


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"vcs_info": {"commit_id": 5}}', '{"dir_info": {}}'])
def test_a_record_without_a_commit_says_nothing(package: Path, text: str) -> None:
    assert revision(package, lambda _: Installed({"direct_url.json": text})) == UNKNOWN


def test_a_package_within_another_repository_does_not_take_its_revision(checkout: Path) -> None:
    """A Python environment often lies in the checkout of another project."""
    package = checkout / ".venv" / "lib" / "site-packages" / "service"
    package.mkdir(parents=True)
    assert revision(package, not_installed) == UNKNOWN


def test_a_checkout_has_the_revision_of_its_commit(checkout: Path) -> None:
    assert revision(checkout / "service", not_installed) == git(checkout, "rev-parse", "HEAD")[:12]


def test_a_file_of_an_older_build_does_not_count_in_a_checkout(checkout: Path) -> None:
    (checkout / "service" / "revision.txt").write_text(COMMIT)
    assert revision(checkout / "service", not_installed) == git(checkout, "rev-parse", "HEAD")[:12]


def test_a_checkout_with_changed_files_is_called_modified(checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert revision(checkout / "service", not_installed) == f"{git(checkout, 'rev-parse', 'HEAD')[:12]}, modified"


def test_a_git_hook_of_another_repository_changes_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(checkout / "elsewhere"))
    assert revision(checkout / "service", not_installed) == head[:12]


def test_an_unpacked_archive_has_what_its_build_wrote_or_nothing(tmp_path: Path, checkout: Path) -> None:
    """An archive that lies within another repository is no checkout of that repository."""
    archive = checkout / "txnscope-1.0.0"
    (archive / "service").mkdir(parents=True)
    (archive / "pyproject.toml").write_text("[project]\n")
    assert revision(archive / "service", not_installed) == UNKNOWN
    (archive / "service" / "revision.txt").write_text(COMMIT)
    assert revision(archive / "service", not_installed) == SHOWN


def test_a_checkout_without_git_has_no_revision(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert revision(checkout / "service", not_installed) == UNKNOWN
