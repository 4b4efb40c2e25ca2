"""`txnscope resolve FINDING_ID`: shows the marker that ends a hanging transaction; with --execute, writes it."""

from __future__ import annotations

import json
from argparse import Namespace

from service.cli.errors import FINE
from service.cli.rest import Service
from service.settings import Settings


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the marker that was written, or would be written. Raises CommandFailed: code 2 if the service refuses; 3
    if the service or Kafka does not answer.
    """
    said = Service(settings).resolve(flags.finding, dry_run=not flags.execute)
    if flags.json:
        print(json.dumps(said, indent=2))
        return FINE
    place = f"{said['topic']}-{said['partition']}"
    who = f"producer id {said['producer_id']}, epoch {said['producer_epoch']}"
    verb = "wrote" if said["executed"] else "would write"
    print(f"{verb} {said['marker']} to {place} for {who} (coordinator epoch {said['coordinator_epoch']})")
    print(f"because {said['reason']}")
    for number, step in enumerate(said["steps"], 1):
        print(f"  {number}. {step}")
    if not said["executed"]:
        print("dry run, nothing was written: add --execute")
        if said["command"]:
            print(f"or, with Kafka's own tool: {said['command']}")
    return FINE
