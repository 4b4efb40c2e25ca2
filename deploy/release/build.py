"""Builds the wheel and the source archive of a commit several times, and compares the results byte by byte.

`python -m deploy.release.build v1.0.0 FOLDER` builds the files of a tag again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from deploy.release.commands import ReleaseError, git, run

REVISION: Final = Path("service") / "revision.txt"
"""The file with the commit that `txnscope --version` shows (service/cli/version.py)."""


def build(root: Path, commit: str, scratch: Path, out: Path) -> tuple[Path, ...]:
    """Builds a commit of the repository at `root` into `out`, and returns the paths of the wheel and the source
    archive.

    The commit is built twice, each time in a new folder, and the second time with another umask, time zone and
    language. The wheel is built a third time, from the source archive. Raises ReleaseError if a file differs or a build
    fails. All times in the files are the time of the commit.
    """
    epoch = {"SOURCE_DATE_EPOCH": git(root, "show", "--no-patch", "--format=%ct", commit)}
    first, second = scratch / "first", scratch / "second"
    _build(export(root, commit, scratch / "tree"), out, epoch)
    _build(
        export(root, commit, scratch / "another" / "tree"), second, {**epoch, "TZ": "Asia/Tokyo", "LC_ALL": "C"}, 0o077
    )
    _same(out, second, "a second build")
    (archive,) = out.glob("*.tar.gz")
    shutil.unpack_archive(archive, first, filter="data")
    (unpacked,) = first.iterdir()
    _build(unpacked, scratch / "third", epoch, targets=("wheel",))
    _same(out, scratch / "third", "a build of the source archive")
    return tuple(sorted(out.iterdir()))


def export(root: Path, commit: str, folder: Path) -> Path:
    """Writes the files of a commit into a new folder, with the file REVISION, and returns the folder."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    git(root, "archive", "--output", str(archive), commit)
    shutil.unpack_archive(archive, folder, filter="data")
    archive.unlink()
    (folder / REVISION).write_text(f"{git(root, 'rev-parse', commit)}\n", "ascii")
    return folder


def digests(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file in a folder, keyed by the file's name."""
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def _build(
    tree: Path, out: Path, variables: Mapping[str, str], umask: int = -1, targets: tuple[str, ...] = ("sdist", "wheel")
) -> None:
    chosen = [word for target in targets for word in ("--target", target)]
    run((sys.executable, "-m", "hatchling", "build", "--directory", str(out), *chosen), tree, variables, umask)


def _same(ours: Path, theirs: Path, what: str) -> None:
    ours_of, theirs_of = digests(ours), digests(theirs)
    differ = [name for name, digest in theirs_of.items() if ours_of.get(name) != digest]
    if differ or not theirs_of:
        raise ReleaseError(f"{what} differs: {', '.join(differ) or 'it made nothing'}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_in:
        build(Path(__file__).parents[2], sys.argv[1], Path(made_in), Path(sys.argv[2]).resolve())
