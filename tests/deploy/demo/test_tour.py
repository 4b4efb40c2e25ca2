"""Tests that the demo prints complete addresses, the page first, and commands that can be pasted."""

from __future__ import annotations

import re
import shlex
import threading
from pathlib import Path
from typing import ClassVar

from deploy.demo import tour
from deploy.demo.options import MonitoringPorts, Options
from deploy.demo.workload.app import App, AppContext
from service.cli.parser import parse

KEY = Path("/tmp/a demo/operator.key")
FINDING = "1f0c2b7a9d3e4f55"


class Shop(App):
    name, example_name, shows, pause_s = "shop", "shop/eu 1", "sells", 0.0
    topics: ClassVar[dict[str, int]] = {}

    def step(self) -> None:
        """Does nothing: no test runs this application."""


SHOP = Shop(AppContext("nowhere:1", 1, "", 1_000, threading.Event()))


def addresses(said: str) -> list[str]:
    return re.findall(r"^  (http://\S+)$", said, re.MULTILINE)


def test_the_tour_lists_pages_before_rest() -> None:
    urls = addresses(tour.text(Options(), [SHOP], FINDING, KEY))
    paths = [url.removeprefix("http://127.0.0.1:8080") for url in urls]
    pages = [path for path in paths if path.startswith("/clusters/demo")]
    assert paths[: len(pages)] == pages
    assert pages == [
        "/clusters/demo",
        f"/clusters/demo/findings/{FINDING}",
        "/clusters/demo/partitions/refunds/0?offset=8",
        "/clusters/demo/applications",
        "/clusters/demo/applications/refunds",
        "/clusters/demo/groups",
        "/clusters/demo/transaction?id=shop%2Feu%201",
        "/clusters/demo/transaction?id=invoices-1",
        "/clusters/demo/transaction?id=archive-1",
        "/clusters/demo/expiring",
        "/clusters/demo/pipeline",
    ]
    assert f"/api/v1/clusters/demo/findings/{FINDING}" in paths
    assert paths[-1] == "/metrics"


def test_the_demo_waits_for_every_printed_address() -> None:
    said = tour.text(Options(port=1234), [SHOP], FINDING, KEY)
    waited_for = [f"http://127.0.0.1:1234{sight.path}" for sight in tour.stops([SHOP], FINDING)]
    assert addresses(said) == waited_for


def test_the_tour_has_the_addresses_of_the_monitoring_if_it_runs() -> None:
    without, full = (
        tour.text(Options(monitoring_ports=ports), [SHOP], FINDING, KEY)
        for ports in (None, MonitoringPorts(1234, 2345))
    )
    added = [url for url in addresses(full) if url not in addresses(without)]
    assert added == [
        "http://127.0.0.1:8080/notifications",
        "http://127.0.0.1:8080/api/v1/clusters/demo/canary",
        "http://127.0.0.1:1234/",
        "http://127.0.0.1:2345/api/v2/alerts",
    ]


def test_every_command_can_be_pasted() -> None:
    for options in (Options(), Options(port=1234)):
        said = tour.text(options, [SHOP], FINDING, KEY)
        lines = [shlex.split(line) for line in said.splitlines() if re.match(r"  \S*txnscope ", line)]
        flags = [parse(line[1:]) for line in lines]
        assert [flag.command.name for flag in flags][-1] == "resolve"
        assert {flag.cluster for flag in flags} == {"demo"}
        assert {flag.url for flag in flags} == {None if options == Options() else "http://127.0.0.1:1234"}
        assert (flags[-1].operator_key_file, flags[-1].finding, flags[-1].execute) == (str(KEY), FINDING, True)
        assert flags[1].id == "shop/eu 1"
