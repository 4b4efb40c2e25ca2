"""`txnscope migrate`: brings the store's schema to head; existing data stays."""

from __future__ import annotations

from argparse import Namespace

from service.cli.errors import FINE, store_failures
from service.settings import Settings
from service.store.engine import open_engine
from service.store.migrate import upgrade


def run(_flags: Namespace, settings: Settings) -> int:
    """Migrates the store. Safe to run at any time and by several processes at once."""
    with store_failures():
        engine = open_engine(settings.store)
        try:
            upgrade(engine)
        finally:
            engine.dispose()
    return FINE
