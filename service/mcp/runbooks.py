"""The runbooks of docs/runbooks as resources of MCP."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import service

_FOLDER: Final = Path(service.__path__[0]) / "web" / "docs" / "runbooks"
_URI: Final = "txnscope://runbooks/"


class Runbook(NamedTuple):
    """A runbook. `name`: that of its alert."""

    name: str
    text: str

    @property
    def uri(self) -> str:
        return uri_of(self.name)


def uri_of(alert: str) -> str:
    """Returns the address of the alert's runbook among the resources."""
    return f"{_URI}{alert}"


@cache
def runbooks() -> tuple[Runbook, ...]:
    """Returns all runbooks, by name."""
    files = sorted(file for file in _FOLDER.glob("*.md") if file.stem != "README")
    return tuple(Runbook(file.stem, file.read_text("utf-8")) for file in files)
