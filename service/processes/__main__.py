"""`python -m service.processes JSON`: a small, long-lived process that keeps commands running.

JSON: a list of `{"name": …, "command": […]}`.
"""

from __future__ import annotations

import json
import sys
from typing import Final

from service.processes.supervisor import CONFIGURATION, ChildCommand, Silence, Supervisor

FINE: Final = 0
CANNOT_REACH: Final = 3


def main(commands: list[dict[str, list[str]]]) -> int:
    """Runs the commands until SIGTERM or SIGINT, and returns the exit code (0). If there is only one command, some of
    its exit codes also end the run, and are returned: 2 (wrong configuration) from any of its processes; 3 (a server
    cannot be reached) and 0 (done) only from its first process."""
    is_alone = len(commands) == 1
    final, at_start = ({CONFIGURATION}, {FINE, CANNOT_REACH}) if is_alone else (set(), set())
    children = [
        ChildCommand(str(command["name"]), command["command"], {}, Silence(), frozenset(final), frozenset(at_start))
        for command in commands
    ]
    return Supervisor(children, name="ingest", is_piped=not is_alone).run()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
