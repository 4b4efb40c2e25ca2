"""`python -m service.processes NAME COMMAND…`: keeps one command running. A process that stays small and lives long."""

from __future__ import annotations

import sys
from typing import Final

from service.processes.supervisor import ChildCommand, Silence, Supervisor

FINE: Final = 0
CANNOT_REACH: Final = 3


def main(name: str, command: list[str]) -> int:
    """Until SIGTERM or SIGINT (0), or until the command cannot work as configured (2), or never reached anybody (3)."""
    child = ChildCommand(name, command, silence=Silence(), final_at_start=frozenset({FINE, CANNOT_REACH}))
    return Supervisor([child], name=name, is_piped=False).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
