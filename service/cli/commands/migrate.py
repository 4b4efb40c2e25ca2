"""`txnscope migrate`: brings the store's schema to the newest version; existing data stays. `--rebuild` replaces a
damaged store by a new one."""

from __future__ import annotations

import sys
from argparse import Namespace

from service.cli.errors import FINE, store_failures
from service.clock import wall_clock_ms
from service.settings import Settings
from service.store.backends.backend import Rebuilt
from service.store.engine import open_engine
from service.store.migrate import rebuild, upgrade


def run(flags: Namespace, settings: Settings) -> int:
    """Migrates the store; with --rebuild, rebuilds it instead. A migration is safe at any time, also if several
    processes migrate at once. Raises CommandFailed: code 3 if the store does not answer; 2 if the store cannot be used.
    """
    with store_failures():
        if flags.rebuild:
            _show(rebuild(settings.store, wall_clock_ms()))
            return FINE
        engine = open_engine(settings.store)
        try:
            upgrade(engine)
        finally:
            engine.dispose()
    return FINE


def _show(rebuilt: Rebuilt) -> None:
    rows = sum(table.rows for table in rebuilt.tables)
    lost = [table.table for table in rebuilt.tables if not table.is_whole]
    print(f"saved {rows:,} rows; the old file is {rebuilt.old_file}", file=sys.stderr)
    if lost:
        print(f"tables that could be read only in part: {', '.join(lost)}", file=sys.stderr)
    if not rebuilt.counts_go_on:
        print("counts start at zero: the old counts cannot be read", file=sys.stderr)
    print("the transaction log is read again at the next start of the application", file=sys.stderr)
