"""Runs the steps of a release in order. Only the last step changes the checkout."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from deploy.release import artifacts, changelog, smoke
from deploy.release.build import build, export
from deploy.release.commands import ReleaseError, git, run
from deploy.release.versions import write_version

CHANGELOG: Final = "CHANGELOG.md"
GENERATED: Final = ("tests.helpers.openapi_document", "tests.helpers.stable_names")
"""Programs that renew documents: the OpenAPI document, which has the version, and the list of stable names. The second
program fails if a promised name is gone."""

Try = Callable[[Path, Path, Path, str, str], None]


class Project(NamedTuple):
    """A project to release. `root`: its checkout. `generated`: the modules that renew generated documents. `try_wheel`:
    a function that tries the wheel; it gets the wheel, the source tree, a scratch folder, the version and the
    revision."""

    root: Path
    generated: tuple[str, ...]
    try_wheel: Try


class Released(NamedTuple):
    """A finished release. `tag`: its tag in the repository; `folder`: the folder with its files."""

    tag: str
    commit: str
    folder: Path


def try_wheel(wheel: Path, tree: Path, scratch: Path, version: str, revision: str) -> None:
    """Tries the wheel in an environment that has only the wheel and the packages that it needs."""
    command = smoke.install(wheel, tree, scratch / "environment")
    (scratch / "empty").mkdir()
    smoke.check(command, version, revision, scratch / "empty")


def release(project: Project, version: str, say: Callable[[str], None]) -> Released:
    """Releases the present commit: cuts the changelog, builds the files, tries the wheel, and at the end commits and
    tags.

    All times in the files are the time of the present commit, so that a second release of the commit has the same
    files. Raises ReleaseError; then the checkout and its repository are unchanged.
    """
    root = project.root
    tag, dist = check(root, version), root / "dist" / version
    with tempfile.TemporaryDirectory(prefix="txnscope-release-") as folder:
        scratch = Path(folder)
        try:
            commit = _prepare(project, version, scratch / "source", say)
            out = scratch / version
            out.mkdir()
            _make(project, version, commit, scratch, out, say)
            dist.parent.mkdir(exist_ok=True)
            shutil.copytree(out, dist)
        finally:
            _forget(root, scratch / "source")
    try:
        git(root, "tag", "--annotate", "--message", f"txnscope {version}", tag, commit)
        try:
            git(root, "merge", "--quiet", "--ff-only", commit)
        except ReleaseError:
            git(root, "tag", "--delete", tag)
            raise
    except ReleaseError:
        shutil.rmtree(dist)
        raise
    return Released(tag, commit, dist)


def check(root: Path, version: str) -> str:
    """Returns the tag for `version`. Raises ReleaseError if `version` is not valid, or the checkout is not ready for
    the release."""
    tag, final = f"v{version}", changelog.final_of(version)
    if changed := git(root, "status", "--porcelain"):
        raise ReleaseError(f"the tree is not clean:\n{changed}")
    if git(root, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD":
        raise ReleaseError("HEAD is on no branch: the commit of the release would be lost")
    tags = git(root, "tag", "--list").splitlines()
    if taken := {tag, f"v{final}"} & set(tags):
        raise ReleaseError(f"the tag {min(taken)} already exists")
    if (folder := root / "dist" / version).exists():
        raise ReleaseError(f"{folder} already exists: remove it")
    changelog.cut((root / CHANGELOG).read_text("utf-8"), version, "")
    return tag


def _prepare(project: Project, version: str, source: Path, say: Callable[[str], None]) -> str:
    """Makes the commit of the release on top of the present commit, on no branch. Returns the id of the new commit."""
    root = project.root
    at = git(root, "show", "--no-patch", "--format=%ct", "HEAD")
    date = datetime.fromtimestamp(int(at), UTC).date().isoformat()
    git(root, "worktree", "add", "--quiet", "--detach", str(source), "HEAD")
    made = changelog.cut((source / CHANGELOG).read_text("utf-8"), version, date)
    (source / CHANGELOG).write_text(made.text, "utf-8")
    write_version(source, version)
    for module in project.generated:
        say(f"python -m {module}")
        run((sys.executable, "-m", module), source, {"PYTHONPATH": str(source)})
    times = {"GIT_AUTHOR_DATE": f"{at} +0000", "GIT_COMMITTER_DATE": f"{at} +0000"}
    git(source, "commit", "--quiet", "--all", "--message", f"release: {version}", variables=times)
    return git(source, "rev-parse", "HEAD")


def _make(project: Project, version: str, commit: str, scratch: Path, out: Path, say: Callable[[str], None]) -> None:
    root, epoch = project.root, git(project.root, "show", "--no-patch", "--format=%ct", commit)
    say("building the commit twice, and the wheel a third time, from the source archive")
    build(root, commit, scratch, out)
    tree = export(root, commit, scratch / "release")
    (wheel,) = out.glob("*.whl")
    say(f"trying {wheel.name} in an empty environment")
    project.try_wheel(wheel, tree, scratch, version, commit)
    artifacts.write_sbom(tree, scratch, out, version)
    for target in artifacts.ADDED:
        say(f"make {target}")
        artifacts.add(tree, out, version, commit, epoch, target)
    notes = changelog.cut(git(root, "show", f"{commit}~:{CHANGELOG}"), version, "").notes
    (out / "NOTES.md").write_text(notes, "utf-8")
    artifacts.write_checksums(out)


def _forget(root: Path, source: Path) -> None:
    if source.exists():
        git(root, "worktree", "remove", "--force", str(source))
