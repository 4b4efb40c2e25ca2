"""Renews docs/stable-names.json. If a promise is broken and `--remove` is not given, prints the broken promises and
writes nothing."""

from __future__ import annotations

import argparse
import sys

from tests.helpers.stable_names import DOCUMENT, broken, document, listed, made


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.stable_names", description=__doc__)
    parser.add_argument("--remove", action="store_true", help="write the list even if names are gone or newly required")
    flags = parser.parse_args()
    present = made()
    if DOCUMENT.exists() and not flags.remove and (found := broken(listed(), present)):
        sys.stderr.write(
            "\n".join([*found, "see docs/stability.md; to write the list in spite of this, use --remove\n"])
        )
        return 1
    DOCUMENT.write_text(document(present), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
