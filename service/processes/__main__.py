"""`python -m service.processes NAME COMMAND…`: a small, long-lived process that keeps one command running."""

from __future__ import annotations

import sys
from typing import Final

from service.processes.supervisor import ChildCommand, Silence, Supervisor

FINE: Final = 0
CANNOT_REACH: Final = 3


def main(name: str, command: list[str]) -> int:
    """Runs the command until SIGTERM or SIGINT (0), until it cannot work as configured (2), or until its first life
    ends because it cannot reach a server (3) or is done (0)."""
    child = ChildCommand(name, command, silence=Silence(), final_at_start=frozenset({FINE, CANNOT_REACH}))
    return Supervisor([child], name=name, is_piped=False).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
