"""`txnscope expiring`: a table of the transactional.ids that their coordinators will remove soon."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime
from typing import Any

from service.cli.rest import Service
from service.cli.text import age, name_of, print_page
from service.settings import Settings

_HEADS = ("TRANSACTIONAL.ID", "EXPIRES IN", "AT", "STATE", "LAST UPDATE", "COMMITS")


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the table. CommandFailed: 3 if the service does not answer, 2 if it refuses the duration."""
    page = Service(settings).expiring(flags.within, flags.limit)
    return print_page(page, flags.json, _HEADS, lambda one: _row(one, page["as_of"]))


def _row(one: dict[str, Any], as_of: str | None) -> tuple[object, ...]:
    return (
        name_of(one),
        _time_left(one["expires_at"], as_of),
        one["expires_at"],
        one["state"],
        one["last_updated_at"],
        one["counts"]["commits"],
    )


def _time_left(expires_at: str | None, as_of: str | None) -> str:
    """Returns the time until the id expires, or "past": coordinators sweep at intervals and keep the id until then."""
    if as_of is None or expires_at is None:
        return "-"
    is_past = datetime.fromisoformat(expires_at) <= datetime.fromisoformat(as_of)
    return "past" if is_past else age(as_of, expires_at)
