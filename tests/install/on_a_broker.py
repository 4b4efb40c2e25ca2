"""Runs commands of docs/install, on a real broker that has transactions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.error import URLError

from deploy.demo.broker import Broker
from tests.helpers.brokers import free_port
from tests.helpers.servers import get_json
from tests.helpers.waiting import wait_until, wait_until_equal
from tests.install.machines import Machine
from tests.integration.producers import create_topic, open_producer, transact

BROKERS: Final = "broker1:9092,broker2:9092"
"""The broker addresses on the pages. A test replaces them by the address of its broker."""

IDS: Final = ("orders-0", "orders-1")
"""The transactional.ids on the broker of a test. Each id commits one transaction before txnscope runs, and aborts one
while txnscope runs."""


def show_transactions(machine: Machine, after: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Runs the three blocks of commands in `after` on a machine, against a real broker that has transactions. The first
    block examines the cluster, the second runs txnscope until Ctrl-C, and the third lists the ids. Returns the list as
    soon as it has all IDS."""
    examine, watch, show = after
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    mine = {**environment, "TXNSCOPE_PORT": str(port), "TXNSCOPE_URL": url}
    with Broker("4.3.1", free_port(), folder / "kafka") as broker:
        (folder / "client.properties").write_text("security.protocol=PLAINTEXT\n", "ascii")
        create_topic(broker.bootstrap, "orders")
        producers = [open_producer(broker.bootstrap, name) for name in IDS]
        for producer in producers:
            transact(producer, "orders", commit=True)
        machine.run(
            examine.replace(BROKERS, broker.bootstrap), folder, mine, 120
        )  # exit code 0: no permission is missing
        with machine.started(watch.replace(BROKERS, broker.bootstrap), folder, mine):

            def ended() -> dict[str, str]:
                found = get_json(f"{url}/api/v1/clusters/orders/transactions")["items"]
                return {one["transactional_id"]: one["state"] for one in found}

            wait_until_equal(ended, dict.fromkeys(IDS, "CompleteCommit"), "earlier transactions", retry_on=(URLError,))
            for producer in producers:
                transact(producer, "orders", commit=False)
            wait_until_equal(ended, dict.fromkeys(IDS, "CompleteAbort"), "new transactions")
            return wait_until(
                lambda: machine.run(show, folder, mine, 120), lambda said: all(name in said for name in IDS), "the list"
            )
