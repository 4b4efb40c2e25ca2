"""`txnscope watch`: migrates the store, then keeps the service and an application for each cluster running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from argparse import Namespace

from service.cli.commands.serve import listen
from service.cli.errors import FINE
from service.cli.exposure import check_exposure, check_mcp, tls_of
from service.cli.kafka import ingest_children, remediation_clients
from service.processes.supervisor import ChildCommand, Silence, Supervisor
from service.settings import Settings, for_service, for_store


def run(_flags: Namespace, settings: Settings) -> int:
    """Supervises all processes until SIGTERM or SIGINT, and returns 0. If the migration fails, or a child process fails
    and a new start cannot help, returns the exit code of that process. Raises CommandFailed: code 2 if a setting cannot
    work; 3 if the port is taken."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(FINE))
    ingests = ingest_children(settings.model_copy(update={"liveness": None}))  # only `txnscope ingest` has --liveness
    remediation_clients(settings)
    check_exposure(settings)
    check_mcp(settings)
    tls_of(settings)
    listen(settings.host, settings.port).close()
    # in a process of its own: this one lives long and stays small without a database library
    migrated = subprocess.run(_own("migrate"), env=os.environ | for_store(settings), check=False)
    if migrated.returncode:
        return migrated.returncode
    serve = ChildCommand("serve", _own("serve"), for_service(settings), Silence())
    return Supervisor([*ingests, serve]).run()


def _own(command: str) -> list[str]:
    return [sys.executable, "-m", "service.cli", command]
