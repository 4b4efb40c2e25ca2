"""A tour of the running demo: the pages, REST paths and commands worth trying."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from deploy.demo.options import DEFAULTS, MonitoringPorts, Options
from deploy.demo.scenarios import ARCHIVE_ID, INVOICES_ID, LATE_OFFSET, REFUND_MAILS, REFUNDS, REFUNDS_ID
from deploy.demo.workload.app import App

CLUSTER = "demo"
PAGE = f"/clusters/{CLUSTER}"
API = f"/api/v1{PAGE}"


class TourStop(NamedTuple):
    """A path of the service, and a line that says what the path shows."""

    path: str
    shows: str


def pages(apps: Sequence[App], finding: str) -> list[TourStop]:
    """Returns the pages of the tour. `finding`: id of the finding about the hanging transaction."""
    return [
        TourStop(PAGE, "whether anything is wrong, which groups wait, and since when; the page updates by itself"),
        TourStop(
            f"{PAGE}/findings/{finding}",
            f"{REFUNDS_ID} wrote after the end of its transaction: what hangs, and how to end it",
        ),
        TourStop(
            f"{PAGE}/partitions/{REFUNDS}/0?offset={LATE_OFFSET}",
            "the hidden records, and the writer of the record at this offset",
        ),
        TourStop(f"{PAGE}/applications", "the applications behind the ids, those with the most failures first"),
        TourStop(f"{PAGE}/applications/{REFUNDS}", f"what is open, ended and wrong in {REFUNDS}"),
        TourStop(f"{PAGE}/groups", f"{REFUND_MAILS} has read up to the LSO, and is blocked"),
        *(TourStop(f"{PAGE}/{_transaction(app.example)}", app.shows) for app in apps),
        TourStop(
            f"{PAGE}/{_transaction(INVOICES_ID)}",
            "decided but not completed: the partition of this transaction refuses the marker",
        ),
        TourStop(
            f"{PAGE}/{_transaction(ARCHIVE_ID)}",
            "transactions open for ten minutes each, within their timeout: they do not hang",
        ),
        TourStop(f"{PAGE}/expiring", "ids that their coordinator will remove, soonest first"),
        TourStop(f"{PAGE}/pipeline", "how far the logs are read, and how old the data are"),
    ]


def rest(apps: Sequence[App], finding: str) -> list[TourStop]:
    return [
        TourStop(API, "the cluster: states, totals, rates, settings"),
        TourStop(f"{API}/transactions?sort=age", "every transactional.id, the longest open transaction first"),
        TourStop(f"{API}/{_transaction(apps[0].example)}", "one id"),
        TourStop(f"{API}/transaction/timeline?id={_quoted(apps[0].example)}", "why each transaction of this id ended"),
        TourStop(f"{API}/findings?status=confirmed", "what is wrong or about to go wrong, with evidence and advice"),
        TourStop(f"{API}/findings/{finding}", "the hanging transaction"),
        TourStop(
            f"{API}/partitions/{REFUNDS}/0",
            "the transaction that holds the LSO of this partition, since when, and the groups that wait",
        ),
        TourStop(f"{API}/groups?blocked=true", "the blocked consumer groups"),
        TourStop(
            f"{API}/applications",
            "each application: its ids, commits, aborts by cause, and what its transactions hold up",
        ),
        TourStop("/metrics", "the metrics for Prometheus"),
    ]


def stops(apps: Sequence[App], finding: str) -> list[TourStop]:
    """Returns all paths of the tour. Each path answers 200 once all applications have done a first step, all scenarios
    are produced, and the service has read their transactions."""
    return pages(apps, finding) + rest(apps, finding)


def text(options: Options, apps: Sequence[App], finding: str, key_file: Path) -> str:
    """Returns the tour as text: each address, with a line about what the address shows, then commands."""
    base = f"http://127.0.0.1:{options.port}"
    lines = ["The page:", "", *_lines(base, pages(apps, finding)), "", "REST:", "", *_lines(base, rest(apps, finding))]
    if options.monitoring_ports is not None:
        lines += ["", *_alerting(base, options.monitoring_ports)]
    where = ["--cluster", CLUSTER, *([] if options.port == DEFAULTS.port else ["--url", base])]
    txnscope = _short(Path(sys.executable).with_name("txnscope"))
    lines += ["", "On the command line:", ""]
    for command in (
        ["transactions", *where, "--sort", "age"],
        ["transaction", *where, apps[0].example],
        ["findings", *where],
        ["applications", *where],
        ["expiring", *where],
        ["hanging", *where],
        ["partitions", *where, "--lagging"],
        ["groups", *where, "--blocked"],
        ["explain", *where, f"{REFUNDS}-0@0", "--to", str(LATE_OFFSET + 1)],
    ):
        lines.append("  " + shlex.join([txnscope, *command]))
    resolve = ["resolve", *where, "--operator-key-file", str(key_file), finding, "--execute"]
    lines += [
        "",
        f"This command ends the hanging transaction, once {REFUNDS_ID} has expired (a minute after the start):",
        "",
    ]
    return "\n".join([*lines, "  " + shlex.join([txnscope, *resolve])])


def _alerting(base: str, ports: MonitoringPorts) -> list[str]:
    return [
        "Notifications of findings are printed here. Alerts are printed when they fire and when they resolve. See also",
        "",
        f"  {base}/notifications",
        "      the receivers of notifications, and how their deliveries go",
        f"  {base}{API}/canary",
        "      the canary: whether transactions can run now, and how long they take",
        f"  http://127.0.0.1:{ports.prometheus_port}/",
        "      Prometheus with the shipped rules",
        f"  http://127.0.0.1:{ports.alertmanager_port}/api/v2/alerts",
        "      Alertmanager with the shipped routes: alerts that fire now",
    ]


def _lines(base: str, stops: Sequence[TourStop]) -> list[str]:
    return [line for tour_stop in stops for line in (f"  {base}{tour_stop.path}", f"      {tour_stop.shows}")]


def _transaction(transactional_id: str) -> str:
    return f"transaction?id={_quoted(transactional_id)}"


def _quoted(transactional_id: str) -> str:
    return quote(transactional_id, safe="")


def _short(program: Path) -> str:
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else str(program)
