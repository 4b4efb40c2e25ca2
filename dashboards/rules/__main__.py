"""`python -m dashboards.rules` writes the rule files, or with --check names those that differ from what it would write.

Exit codes: 0 written, or all as built; 1 something differs.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

from dashboards.rules.build import files
from dashboards.rules.rule import Links

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    parser = ArgumentParser(prog="python -m dashboards.rules", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument("--out", type=Path, default=HERE, help="directory (default: where the committed ones are)")
    defaults = Links()
    parser.add_argument("--page", default=defaults.page, help="where people reach the service (default: %(default)s)")
    parser.add_argument("--grafana", default=defaults.grafana, help="where they reach Grafana (default: %(default)s)")
    parser.add_argument(
        "--runbooks",
        default=defaults.runbooks,
        help="where docs/runbooks is (default: PAGE/guide/runbooks, the service shows it)",
    )
    asked = parser.parse_args(arguments)
    links = Links(*(url.rstrip("/") for url in (asked.page, asked.grafana, asked.runbooks)))
    differ = False
    for name, text in files(links).items():
        path = asked.out / name
        if not asked.check:
            path.write_text(text, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            differ = True
            sys.stderr.write(f"{path} differs from what dashboards/rules makes: run `python -m dashboards.rules`\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
