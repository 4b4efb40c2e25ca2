"""`python -m deploy.site` makes the documentation of docs/ as a static site, and the man page.

It writes `site/index.html` and `man/txnscope.1` into `--out`. A broken link, a missing heading, or a page that
docs/index.md does not list is an error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sphinx.cmd.build import build_main

from deploy.release.artifacts import write_tar
from deploy.site.man import ROOT, man_page

HERE = Path(__file__).parent

_BUILD_INFO: Final = ".buildinfo"
"""A file that Sphinx writes for its next build. It is not packed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the site and the man page. Returns the exit code: 0, or Sphinx's exit code if the site cannot be made.
    Sphinx prints what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m deploy.site", description=__doc__)
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=ROOT / "dist" / "docs", help="(default: dist/docs)"
    )
    parser.add_argument("--docs", metavar="FOLDER", type=Path, default=ROOT / "docs", help="the pages (default: docs)")
    parser.add_argument("--archive", metavar="FILE", type=Path, help="also pack site and man page into this .tar.gz")
    given = parser.parse_args(arguments)
    if failed := build_site(given.docs, given.out / "site"):
        return failed
    man = given.out / "man" / "txnscope.1"
    man.parent.mkdir(parents=True, exist_ok=True)
    man.write_text(man_page(), "utf-8")
    sys.stdout.write(f"{given.out / 'site' / 'index.html'}\n{man}\n")
    if given.archive is not None:
        files = sorted(path for path in given.out.rglob("*") if path.is_file() and path.name != _BUILD_INFO)
        packed = ((f"txnscope-docs/{file.relative_to(given.out).as_posix()}", file.read_bytes()) for file in files)
        sys.stdout.write(f"{write_tar(given.archive, packed)}\n")
    return 0


def build_site(docs: Path, out: Path) -> int:
    """Builds the whole site, and returns Sphinx's exit code. Warnings are errors."""
    with tempfile.TemporaryDirectory(prefix="txnscope-site-") as doctrees:
        words = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(HERE), "-d", doctrees, str(docs), str(out)]
        return int(build_main(words))


if __name__ == "__main__":
    sys.exit(main())
