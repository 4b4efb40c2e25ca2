"""`python -m dashboards.rules` writes the rule files. With --check, lists the files that are out of date instead. Exit
codes: 0 if written, or nothing is out of date; 1 if a file is out of date; 2 for wrong usage."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

from dashboards.rules.build import files, save
from dashboards.rules.rule import Links
from dashboards.rules.scope import Scope

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    parser = ArgumentParser(prog="python -m dashboards.rules", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument("--out", type=Path, default=HERE, help="directory (default: that of the committed files)")
    defaults = Links()
    parser.add_argument("--page", default=defaults.page, help="where people reach the service (default: %(default)s)")
    parser.add_argument("--grafana", default=defaults.grafana, help="where people reach Grafana (default: %(default)s)")
    parser.add_argument(
        "--runbooks",
        default=defaults.runbooks,
        help="address of the pages of docs/runbooks (default: PAGE/guide/runbooks, where the service shows them)",
    )
    everywhere = Scope()
    parser.add_argument(
        "--job", default=everywhere.job, help="pattern of the names of the service's scrape jobs (default: %(default)s)"
    )
    parser.add_argument(
        "--match",
        action="append",
        default=[],
        metavar="MATCHER",
        help='only series with this label, such as env="prod"; alerts keep the label (may be repeated)',
    )
    parser.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="LABEL",
        help="label of the targets that distinguishes clusters of the same name, such as env (may be repeated)",
    )
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="label of every alert, for a Prometheus without external_labels (may be repeated)",
    )
    asked = parser.parse_args(arguments)
    pairs = tuple((name, value) for name, _, value in (label.partition("=") for label in asked.label))
    scope = Scope(asked.job, tuple(asked.match), tuple(asked.by), pairs)
    try:
        scope.check()
    except ValueError as error:
        parser.error(str(error))
    links = Links(*(url.rstrip("/") for url in (asked.page, asked.grafana, asked.runbooks)))
    return save(files(links, scope), asked.out, "dashboards.rules", check=asked.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
