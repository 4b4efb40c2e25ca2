"""The flags and arguments of single commands that are not settings: functions that add them to a command's parser.
COMMANDS in `service.cli.parser` names the function of each command that has such flags."""

from __future__ import annotations

import argparse
from enum import StrEnum

from service.access.actions import Action
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.transaction_log.states import NAMES


def transactions(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--state", choices=sorted(NAMES.values()), help="only this state")
    sub.add_argument("--prefix", metavar="TEXT", help="only ids with this prefix")
    sub.add_argument(
        "--min-age", metavar="DURATION", help="only transactions open for this long or longer: 90s, 15m, 24h, 7d"
    )
    sub.add_argument("--producer-id", metavar="N", help="only the id that has this producer id")
    sub.add_argument("--topic", metavar="NAME", help="only transactions open on this topic")
    _application(sub, "ids")
    sub.add_argument("--q", metavar="TEXT", help="only ids that contain this text")
    sub.add_argument("--sort", choices=("age", "last_updated", "transactional_id"), help="order (default: age)")
    limited_json(sub)


def transaction(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("id", metavar="ID", help="the transactional.id")
    limited_json(sub, "timeline rows", most=20)


def expiring(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--within", metavar="DURATION", help="only ids that expire within this time: 90s, 24h (default), 7d"
    )
    _application(sub, "ids")
    limited_json(sub)


def findings(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--kind", choices=_words(Kind), metavar="KIND", help=f"only this kind: {', '.join(Kind)}")
    sub.add_argument("--severity", choices=_words(Severity), help="only this severity")
    sub.add_argument("--status", choices=_words(Status), help="only this status (default: candidate and confirmed)")
    sub.add_argument("--all", action="store_true", help="include resolved findings")
    sub.add_argument("--transactional-id", metavar="ID", help="only findings about this id")
    sub.add_argument("--topic", metavar="NAME", help="only findings about this topic")
    sub.add_argument("--partition", metavar="N", help="only findings about this partition")
    _application(sub, "findings about ids")
    limited_json(sub)


def partitions(sub: argparse.ArgumentParser) -> None:
    switch(sub, "--lagging", "only partitions whose LSO is stalled below the high watermark")
    sub.add_argument("--topic", metavar="NAME", help="only partitions of this topic")
    _application(sub, "partitions with an open transaction")
    limited_json(sub)


def hanging(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--allow-partial", action="store_true", help="exit with 0 instead of 4 if not everything can be judged"
    )
    _application(sub, "transactions")
    limited_json(sub, "findings")


def groups(sub: argparse.ArgumentParser) -> None:
    switch(sub, "--blocked", "only blocked groups: stopped, about to stop, or with unstable offsets")
    _application(sub, "groups behind an open transaction")
    limited_json(sub)


def inspect(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("files", metavar="FILE", nargs="+", help="a segment (.log), or a directory of segments")
    sub.add_argument("--as", dest="kind", choices=("log", "data"), help="transaction log or data (default: detected)")


def explain(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("place", metavar="TOPIC-PARTITION@OFFSET", help="the record; with --segments, @OFFSET is enough")
    sub.add_argument("--to", metavar="OFFSET", type=_number, help="end of the range, exclusive (default: OFFSET + 1)")
    sub.add_argument(
        "--segments",
        metavar="FILE",
        nargs="+",
        help="read these segments (.log) or directories, not the service; those of __transaction_state add the ids",
    )
    _json(sub)


def resolve(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("finding", metavar="FINDING_ID", help="id of the finding of a confirmed hanging transaction")
    sub.add_argument("--execute", action="store_true", help="write the marker (default: dry run)")
    _json(sub)


def migrate(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--rebuild",
        action="store_true",
        help="replace a damaged store by a new one: save what can be read, and have the transaction log read again",
    )


def keys(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "action",
        choices=("create", "list", "revoke", "hash"),
        help="hash: asks for a password, and prints its hash for [auth.basic]",
    )
    sub.add_argument("name", metavar="NAME", nargs="?", help="name of the key, for the audit")
    sub.add_argument(
        "--role",
        metavar="ROLE[@CLUSTER]",
        nargs="+",
        action="extend",
        help="role of the key: metrics, viewer, operator or admin, in all clusters or in one",
    )


def audit(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--action", choices=_words(Action), help="only this action")
    sub.add_argument("--outcome", metavar="WORD", help="only this outcome: written, refused, dry_run, set, …")
    sub.add_argument("--who", metavar="NAME", help="only actions of this person or key")
    limited_json(sub)


def mute(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("finding", metavar="FINDING_ID", nargs="?", help="mute this finding")
    sub.add_argument("--prefix", metavar="TEXT", help="mute findings of ids with this prefix")
    sub.add_argument("--topic", metavar="GLOB", help="mute findings of these topics")
    sub.add_argument("--for", dest="duration", metavar="DURATION", help="length of the mute: 90m, 4h, 7d")
    sub.add_argument("--reason", metavar="TEXT", help="reason, for colleagues and the audit")
    sub.add_argument("--list", action="store_true", help="list the mutes in effect")
    sub.add_argument("--end", metavar="N", type=_positive, help="end the mute with this number")
    _json(sub)


def notify(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--test",
        metavar="RECEIVER",
        nargs="?",
        const="",
        help="send a test to this receiver of [[notify]], or to all of them",
    )
    _json(sub)


def acknowledge(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("finding", metavar="FINDING_ID", help="id of the finding")
    sub.add_argument("--reason", metavar="TEXT", help="reason, for colleagues and the audit")
    _json(sub)


def switch(sub: argparse.ArgumentParser, name: str, text: str) -> None:
    sub.add_argument(name, action="store_const", const="true", help=text)


def limited_json(sub: argparse.ArgumentParser, of: str = "rows", most: int = 50) -> None:
    text = f"maximum number of {of} (default: {most})"
    sub.add_argument("--limit", metavar="N", type=_positive, default=most, help=text)
    _json(sub)


def _json(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--json", action="store_true", help="print the service's JSON instead of a table")


def _application(sub: argparse.ArgumentParser, what: str) -> None:
    sub.add_argument("--application", metavar="NAME", help=f"only {what} of this application")


def _words(of: type[StrEnum]) -> list[str]:
    """Returns the words as plain text: argparse shows choices by their repr."""
    return [str(word) for word in of]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not an offset")
    return int(text)


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number
