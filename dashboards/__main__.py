"""`python -m dashboards` writes the dashboards as Grafana imports them; `--check` checks that they are up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dashboards.build import BOARDS, FOLDER, stale, text
from dashboards.frame import SITE_URL


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the dashboards, or with `--check` lists the files that differ. Returns the exit code: 1 if `--check` found
    a difference, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name the files that differ")
    parser.add_argument("--out", type=Path, default=FOLDER, help="directory (default: that of the committed files)")
    parser.add_argument("--page", default=SITE_URL, help="where people reach the service (default: %(default)s)")
    given = parser.parse_args(arguments)
    site_url = given.page.rstrip("/")
    if given.check:
        differing = stale(given.out, site_url)
        for line in differing:
            sys.stderr.write(f"{line}; run `python -m dashboards`\n")
        return 1 if differing else 0
    given.out.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        (given.out / board.file).write_text(text(board, site_url), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
