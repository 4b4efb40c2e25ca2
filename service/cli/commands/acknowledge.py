"""`txnscope acknowledge`: acknowledges a finding of a kind that stays open until acknowledged."""

from __future__ import annotations

import json
from argparse import Namespace

from service.cli.commands.mute import reason_of
from service.cli.errors import FINE
from service.cli.rest import Service
from service.settings import Settings


def run(flags: Namespace, settings: Settings) -> int:
    """Acknowledges the finding, and prints the acknowledgement. Raises CommandFailed: code 2 without a reason, or if
    the service refuses the request, for example because the finding needs no acknowledgement; 3 if the service does not
    answer, or cannot use its store."""
    given = Service(settings).acknowledge(flags.finding, reason_of(flags.reason))
    if flags.json:
        print(json.dumps(given, indent=2))
    else:
        print(
            f"{given['by']} acknowledged {flags.finding} at {given['at']}: the finding resolves when it is judged next"
        )
    return FINE
