"""What to look at while the demo runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from deploy.demo.options import DEFAULTS, Options
from deploy.demo.troubles import ARCHIVE_ID, INVOICES_ID, LATE_AT, REFUND_MAILS, REFUNDS, REFUNDS_ID
from deploy.demo.workload.app import App

CLUSTER = "demo"
API = f"/api/v1/clusters/{CLUSTER}"


class Sight(NamedTuple):
    """A path of the service, and what is to be seen there."""

    path: str
    shows: str


def sights(apps: Sequence[App]) -> list[Sight]:
    """Every path answers 200 once all applications have done a first step and the service has seen it."""
    return [
        Sight("/", "the page"),
        Sight(API, "the cluster: states, totals, rates, settings, how far the log is read"),
        Sight(f"{API}/transactions?sort=age", "every transactional.id, the longest open transaction first"),
        Sight(f"{API}/findings?status=confirmed", "what is wrong or about to be, with evidence and advice"),
        *(Sight(f"{API}/transaction?id={quote(app.example, safe='')}", app.shows) for app in apps),
        Sight(f"{API}/transaction/timeline?id={quote(apps[0].example, safe='')}", "why each of its transactions ended"),
        Sight(f"{API}/expiring?within=24h", "ids that their coordinator will remove, soonest first"),
        Sight(f"{API}/hanging", f"{REFUNDS_ID} wrote after its end: nobody will ever end that; the way out with it"),
        Sight(f"{API}/partitions/{REFUNDS}/0", "what it holds back, since when, and who waits behind it"),
        Sight(f"{API}/groups?blocked=true", f"{REFUND_MAILS} has read all it may see, and stands still"),
        Sight(f"{API}/transaction?id={INVOICES_ID}", "decided and not completed: its partition refuses the marker"),
        Sight(f"{API}/transaction?id={ARCHIVE_ID}", "open for ten minutes each time, and legal: it does not hang"),
        Sight("/metrics", "the same for Prometheus"),
    ]


def text(options: Options, apps: Sequence[App]) -> str:
    """The tour as it is printed: a line for the address, one below it for the sight."""
    base = f"http://127.0.0.1:{options.port}"
    lines = ["Look at:", ""]
    for sight in sights(apps):
        lines += [f"  {base}{sight.path}", f"      {sight.shows}"]
    where = [] if options.port == DEFAULTS.port else ["--url", base]
    txnscope = _shown(Path(sys.executable).with_name("txnscope"))
    lines += ["", "On the command line:", ""]
    for command in (
        ["transactions", "--cluster", CLUSTER, *where, "--sort", "age"],
        ["transaction", "--cluster", CLUSTER, *where, apps[0].example],
        ["findings", "--cluster", CLUSTER, *where],
        ["expiring", "--cluster", CLUSTER, *where],
        ["hanging", "--cluster", CLUSTER, *where],
        ["partitions", "--cluster", CLUSTER, *where, "--lagging"],
        ["groups", "--cluster", CLUSTER, *where, "--blocked"],
        ["explain", "--cluster", CLUSTER, *where, f"{REFUNDS}-0@0", "--to", str(LATE_AT + 1)],
    ):
        lines.append("  " + shlex.join([txnscope, *command]))
    return "\n".join(lines)


def _shown(program: Path) -> str:
    """Short where the reader's shell finds it that way."""
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else str(program)
