"""`python -m dashboards.mixin` writes the files that the mixin imports. With --check, lists the files that are out of
date instead.

Exit codes: 0 if written, or nothing is out of date; 1 if a file is out of date; 2 for wrong usage.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

from dashboards.mixin.build import FOLDER, files
from dashboards.rules.build import save


def main(arguments: list[str]) -> int:
    parser = ArgumentParser(prog="python -m dashboards.mixin", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument("--out", type=Path, default=FOLDER, help="directory (default: that of the committed files)")
    asked = parser.parse_args(arguments)
    return save(files(), asked.out, "dashboards.mixin", check=asked.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
