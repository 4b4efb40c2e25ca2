"""`python -m dashboards.mixin` writes what the mixin imports, or with --check names what differs from it.

Exit codes: 0 written, or all as built; 1 something differs; 2 usage.
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
    parser.add_argument("--out", type=Path, default=FOLDER, help="directory (default: where the committed ones are)")
    asked = parser.parse_args(arguments)
    return save(files(), asked.out, "dashboards.mixin", check=asked.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
