"""`txnscope ingest`: keeps the streaming application running, as `txnscope watch` does, but without the service."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import NoReturn

from service.cli.errors import store_failures
from service.cli.kafka import ingest_arguments
from service.settings import Settings, for_ingest
from service.store.engine import open_reader


def run(_flags: Namespace, settings: Settings) -> NoReturn:
    """Replaces this process by the supervisor, so that no flag of the store stays on a command line. Never returns."""
    arguments = ingest_arguments(settings)
    if settings.liveness is not None:
        arguments += ["--liveness", settings.liveness]
    with store_failures():
        open_reader(settings.store).dispose()
    sys.stderr.flush()
    supervisor = [sys.executable, "-m", "service.processes", "ingest", *arguments]
    os.execve(sys.executable, supervisor, os.environ | for_ingest(settings))  # noqa: S606 - no shell wanted
