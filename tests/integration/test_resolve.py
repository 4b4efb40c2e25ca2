"""Ending hanging transactions on real brokers, over REST and on the command line: what is refused, what is written,
and what readers and the finding see of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import uvicorn
from confluent_kafka import Consumer
from sqlalchemy import select

from deploy.demo.workload.clients import consumer
from service.app import create_app
from service.domain.findings import kinds
from service.kafka.settings import ClientSettings
from service.store.schema import audit
from tests.brokers import on
from tests.integration.application import ROOT, wait_for
from tests.integration.hang_lab import HangLab, hang_lab, hang_labs
from tests.lab.asking import open_on
from tests.lab.hangs import Hang, late_write, never_added, old_producer, orphan_producer
from tests.lab.lost_leaders import LIVING, LOST, PROPERTIES, still_hangs, stopped_leader

pytestmark = [pytest.mark.broker, pytest.mark.spark]

KEYS: Final = {"ann": "the-key-of-ann-000", "bob": "the-key-of-bob-000"}


class Desk(NamedTuple):
    """An operator's: the lab, and the service that may resolve (`url`), with brokers and keys."""

    lab: HangLab
    url: str
    key_file: Path

    def post(self, finding: str, body: Any = None, key: str = KEYS["ann"]) -> Any:
        request = urllib_request(f"{self.url}/api/v1/clusters/test/findings/{finding}/resolve", body, key)
        return request

    def cli(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        ours = {k: v for k, v in os.environ.items() if not k.startswith("TXNSCOPE_")}
        ours |= {"PYTHONPATH": str(ROOT), "TXNSCOPE_OPERATOR_KEY_FILE": str(self.key_file), **environment}
        command = [sys.executable, "-m", "service.cli", "resolve", "--url", self.url, *arguments]
        return subprocess.run(command, env=ours, capture_output=True, text=True, timeout=60)
