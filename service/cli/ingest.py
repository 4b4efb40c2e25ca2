"""`txnscope ingest`: becomes the streaming application, so that signals and the exit code are its own."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import NoReturn

from service.cli.kafka import ingest_arguments
from service.cli.stores import store_failures
from service.settings import Settings, for_children
from service.store.engine import open_reader


def run(_flags: Namespace, settings: Settings) -> NoReturn:
    """Never returns."""
    arguments = ingest_arguments(settings)
    with store_failures():
        open_reader(settings.store).dispose()
    sys.stderr.flush()
    os.execve(sys.executable, arguments, os.environ | for_children(settings))  # noqa: S606 - no shell wanted
