"""`txnscope notify`: shows the state of each receiver's deliveries, or sends a test to receivers."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any, Final

from service.cli.errors import FINE, UNREACHABLE, CommandFailed
from service.cli.rest import Service
from service.cli.text import print_page
from service.settings import Settings

_HEADS: Final = ("RECEIVER", "KIND", "DELIVERED", "PENDING", "DROPPED", "FAILING SINCE", "ERROR")


def run(flags: Namespace, settings: Settings) -> int:
    """Prints the state of each receiver's deliveries. With --test, sends a test to the named receiver instead, or
    without a name to all receivers; returns 3 if one of them does not accept the test. Raises CommandFailed: code 2 for
    an unknown receiver, or if there is none; 3 if the service does not answer."""
    if flags.test is None:
        return print_page(Service(settings).notifications(), flags.json, _HEADS, _row)
    return _try_receivers(flags.test, settings)


def _try_receivers(name: str, settings: Settings) -> int:
    tables = [table for table in settings.notify if name in ("", table.name)]
    if not tables:
        known = ", ".join(table.name for table in settings.notify)
        raise CommandFailed(
            f"--test {name}: no [[notify]] has this name; there are: {known}"
            if known
            else "no [[notify]] in the settings"
        )
    # imported here, because these modules need the web framework and the receivers' libraries
    from service.app import trial_notification
    from service.notifications.notification import Undelivered
    from service.notifications.receivers import receiver_of

    code = FINE
    for table in tables:
        receiver = receiver_of(table, settings.url, list)
        try:
            receiver.send([trial_notification(settings.url)])
            print(f"{table.name}: accepted the test")
        except Undelivered as error:
            print(f"{table.name}: {error}", file=sys.stderr)
            code = UNREACHABLE
        finally:
            receiver.close()
    return code


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    return (
        *(one["receiver"], one["kind"], one["delivered"], one["pending"], one["dropped"]),
        *(one["failing_since"] or "-", one["error"] or "-"),
    )
