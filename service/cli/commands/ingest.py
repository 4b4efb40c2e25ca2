"""`txnscope ingest`: keeps the streaming applications running, as `txnscope watch` does, but without the service."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from typing import NoReturn

from service.cli.errors import CommandFailed, store_failures
from service.cli.kafka import ingest_children
from service.settings import Settings, for_ingest
from service.store.engine import open_reader


def run(_flags: Namespace, settings: Settings) -> NoReturn:
    """Replaces this process by the supervisor, and never returns. The store's URL is passed in the environment, so that
    no command line shows it. Raises SettingsError if flags and clusters do not fit together, and CommandFailed if other
    settings, or the store's URL, cannot be used. The store is not opened here."""
    children = ingest_children(settings)
    if settings.liveness is not None and len(children) > 1:
        raise CommandFailed("--liveness works for one cluster only: run one ingest for each cluster, with --cluster")
    commands = [{"name": child.name, "command": child.arguments} for child in children]
    with store_failures():
        open_reader(settings.store).dispose()
    sys.stderr.flush()
    supervisor = [sys.executable, "-m", "service.processes", json.dumps(commands)]
    os.execve(sys.executable, supervisor, os.environ | for_ingest(settings))  # noqa: S606 - no shell wanted
