"""`make boards` runs the demo with Prometheus, asks every query of every dashboard, and draws docs/boards/*.png.

Exit codes: 0 drawn; 1 nothing drawn, because a query failed, or a panel that needs data was empty.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deploy.demo.environment import DemoEnvironment
from deploy.demo.options import MonitoringPorts, Options
from tests.dashboards.check_queries import asking
from tests.dashboards.demo_panels import GIVEN, boards, failures_in_demo
from tests.dashboards.pictures.answers import Span, drawing
from tests.dashboards.pictures.draw import PICTURES, draw
from tests.helpers.brokers import free_ports


def main(arguments: list[str]) -> int:
    parser = ArgumentParser(prog="python -m tests.dashboards.pictures", description=__doc__)
    parser.add_argument("--minutes", type=float, default=4, help="time for which the demo runs (default: %(default)g)")
    parser.add_argument("--out", type=Path, default=PICTURES, help="directory (default: docs/boards)")
    parser.add_argument(
        "--answers", type=Path, help="run no demo, and draw the answers in this file, which --keep wrote"
    )
    parser.add_argument("--keep", type=Path, help="file for the answers")
    asked = parser.parse_args(arguments)
    if asked.answers:
        drawings = json.loads(asked.answers.read_text("utf-8"))
    else:
        drawings, failed = _answers_of_a_demo(60 * asked.minutes)
        if asked.keep:
            asked.keep.write_text(json.dumps(drawings), "utf-8")
        if failed:
            sys.stderr.write("".join(f"{line}\n" for line in failed))
            return 1
    asked.out.mkdir(parents=True, exist_ok=True)
    for path in draw(drawings, asked.out):
        sys.stdout.write(f"{path}: {path.stat().st_size / 1000:.0f} kB\n")
    return 0


def _answers_of_a_demo(seconds: float) -> tuple[dict[str, Any], list[str]]:
    """Runs a demo. Returns the drawing of each board, and a line for each query that failed or had no data although its
    panel needs data."""
    port, kafka_port, *monitoring = free_ports(4)
    options = Options(port, kafka_port, monitoring_ports=MonitoringPorts(*monitoring))
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        DemoEnvironment(options, Path(directory), lambda _: None) as demo,
    ):
        started = time.time()
        demo.wait_until_ready()
        demo.run_for(seconds)
        prometheus = f"http://127.0.0.1:{monitoring[0]}"
        ask, span = asking(prometheus), Span(started, time.time())
        drawings = {file: drawing(board, ask, GIVEN, span) for file, board in boards().items()}
        return drawings, failures_in_demo(prometheus)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
