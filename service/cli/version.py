"""Which txnscope this is."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    """The installed distribution's; a checkout that was never installed has none."""
    try:
        return importlib.metadata.version("txnscope")
    except importlib.metadata.PackageNotFoundError:
        return "0+checkout"
