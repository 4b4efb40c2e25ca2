"""`txnscope mute`: mutes findings for a time, lists the mutes in effect, and ends one."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Any

from service.cli.errors import FINE, CommandFailed
from service.cli.rest import Service
from service.cli.text import print_page, time_of
from service.clock import wall_clock_ms
from service.domain.duration_text import span_ms
from service.settings import Settings

_HEADS = ("MUTE", "FINDINGS", "UNTIL", "BY", "REASON")


def run(flags: Namespace, settings: Settings) -> int:
    """Sets, lists or ends mutes. Raises CommandFailed: code 2 for an invalid request; 3 if the service does not
    answer."""
    subject = {name: getattr(flags, name) for name in ("finding", "prefix", "topic") if getattr(flags, name)}
    if len(subject) + flags.list + (flags.end is not None) != 1:
        raise CommandFailed("give one of FINDING_ID, --prefix, --topic, --list and --end")
    service = Service(settings)
    if flags.list:
        return print_page(service.items("mutes", 10_000), flags.json, _HEADS, _row)
    if flags.end is not None:
        service.end_mute(flags.end)
        print(f"ended mute {flags.end}", file=sys.stderr)
        return FINE
    set_ = service.mute({**subject, "until": _until(flags.duration), "reason": reason_of(flags.reason)})
    if flags.json:
        print(json.dumps(set_, indent=2))
    else:
        print(f"muted {_subject(set_)} until {set_['until']}; end it with --end {set_['id']}")
    return FINE


def _until(duration: str | None) -> str:
    if duration is None:
        raise CommandFailed("--for is missing: give a duration like 90m, 4h or 7d")
    try:
        return time_of(wall_clock_ms() + span_ms(duration))
    except ValueError as error:
        raise CommandFailed(f"--for: {error}") from None


def reason_of(text: str | None) -> str:
    if text is None or not text.strip():
        raise CommandFailed("--reason is missing: give a reason, for colleagues and the audit")
    return text


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    return one["id"], _subject(one), one["until"], one["set_by"], one["reason"]


def _subject(one: dict[str, Any]) -> str:
    if one["finding"] is not None:
        return f"finding {one['finding']}"
    return f"topics {one['topic']}" if one["prefix"] is None else f"ids that begin with {one['prefix']}"
