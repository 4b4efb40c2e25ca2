"""The version of txnscope."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    """Returns the version of the installed distribution; `0+checkout` for a checkout that was never installed."""
    try:
        return importlib.metadata.version("txnscope")
    except importlib.metadata.PackageNotFoundError:
        return "0+checkout"
