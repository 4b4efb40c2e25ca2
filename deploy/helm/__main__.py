"""`python -m deploy.helm` writes the table of values in the chart's README; `--check` checks that it is up to date,
`--package FOLDER` writes the chart's package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.helm.package import write_package
from deploy.helm.values_table import README, VALUES, Undocumented, values, with_table


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the table, checks it (`--check`) or writes the package (`--package`). Returns the exit code: 1 if the
    checked README differs, a value has no comment, or the README has no place for the table; otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m deploy.helm", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the README is not up to date")
    parser.add_argument(
        "--package", metavar="FOLDER", type=Path, help="write only the package txnscope-VERSION.tgz, into this folder"
    )
    given = parser.parse_args(arguments)
    if given.package is not None:
        sys.stdout.write(f"{write_package(given.package)}\n")
        return 0
    before = README.read_text("utf-8")
    try:
        after = with_table(before, values(VALUES.read_text("utf-8")))
    except Undocumented as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if not given.check:
        README.write_text(after, "utf-8")
    elif before != after:
        sys.stderr.write(f"{README}: not up to date; run `python -m deploy.helm`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
