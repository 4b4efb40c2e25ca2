"""`txnscope resolve FINDING_ID`: shows which marker would end a hanging transaction; with --execute, has it written."""

from __future__ import annotations

import json
import re
from argparse import Namespace

from service.cli.errors import FINE, CommandFailed
from service.cli.rest import Service
from service.settings import Settings


def run(flags: Namespace, settings: Settings) -> int:
    """Prints what was written, or would be. CommandFailed: 2 if the service refuses, 3 if the service or Kafka does not
    answer.
    """
    said = Service(settings).resolve(flags.finding, _key(settings), dry_run=not flags.execute)
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


def _key(settings: Settings) -> str:
    """Reads the key of the operator. CommandFailed if it cannot be used; the message does not show the key."""
    file = settings.operator_key_file
    if file is None:
        raise CommandFailed("--operator-key-file is missing: give a file that contains only an operator's key")
    try:
        key = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not a text file"
        raise CommandFailed(f"--operator-key-file {file}: {why}") from error
    if not re.fullmatch(r"[!-~]+", key):
        raise CommandFailed(f"--operator-key-file {file}: the file has to contain one key, and nothing else")
    return key
