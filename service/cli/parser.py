"""The commands of `txnscope` and their flags, declared once. Settings stay text here: `service.settings` reads them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn

from service.cli.errors import USAGE
from service.cli.version import version
from service.domain.findings.kinds import KINDS, SEVERITIES, STATUSES
from service.domain.transaction_log.states import NAMES
from service.settings import Settings, flag

_HELP: Final = {
    "bootstrap_servers": ("H:P[,…]", "brokers to begin with"),
    "kafka_config": ("FILE", "client.properties as Kafka's own tools take it"),
    "cluster": ("NAME", "name of the cluster"),
    "store": ("URL", "sqlite:///FILE or postgresql://HOST/DATABASE"),
    "checkpoint": ("DIR", "where Spark keeps scratch files"),
    "partitions": ("MODE", "of which partitions batches are read: stalled, or all of --topics"),
    "liveness": ("FILE|PORT", "tells that the application works: a file whose time moves, or a port that answers"),
    "operator_key_file": ("FILE", "holds the key of an operator"),
    "topics": ("GLOB", "only partitions of these topics are watched (default: all)"),
    "mirrored": ("GLOB", "not of these, which are copied byte for byte from another cluster"),
    "host": ("HOST", "address to serve on"),
    "port": ("PORT", "port to serve on"),
    "url": ("URL", "where the service is"),
}
_LISTS: Final = ("topics", "mirrored")
_KAFKA: Final = (
    "bootstrap_servers",
    "kafka_config",
    "cluster",
    "store",
    "checkpoint",
    "partitions",
    "topics",
    "mirrored",
)
_SERVICE: Final = ("url", "cluster")


class Command(NamedTuple):
    """A command of `txnscope`.

    `module` of service.cli.commands has `run(flags, settings) -> int`; it is imported only when the command runs.
    """

    name: str
    module: str
    help: str
    settings: tuple[str, ...]
    more: Callable[[argparse.ArgumentParser], None] | None = None


class Parser(argparse.ArgumentParser):
    """A parser that reports a bad flag in one line, with exit code 2."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        formatter = argparse.HelpFormatter(self.prog, max_help_position=32, width=120)
        formatter._action_max_length = 16  # argparse forgets the indent of commands and breaks the longest lines
        return formatter

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Returns the flags: the `Command` is in `flags.command`, its settings under their own names. SystemExit(2) for a
    bad flag.
    """
    top = _parser()
    flags = top.parse_args(argv)
    if flags.command is None:
        top.error(f"COMMAND is missing: one of {', '.join(command.name for command in COMMANDS)}")
    return flags


def _parser() -> Parser:
    top = Parser(
        prog="txnscope",
        description="What every Kafka transaction is doing, and what it ended in.",
        epilog="Settings: flags, then TXNSCOPE_* (TXNSCOPE_PORT is --port), then the TOML file of --config.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"txnscope {version()}")
    # not required: argparse would report the missing command before a flag that does not exist
    top.set_defaults(command=None)
    subparsers = top.add_subparsers(metavar="COMMAND")
    for command in COMMANDS:
        sub = subparsers.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        sub.set_defaults(command=command)
        for name in command.settings:
            metavar, text = _HELP[name]
            default = Settings.model_fields[name].default
            shown = f" (default: {default})" if default else ""
            sub.add_argument(flag(name), metavar=metavar, nargs="+" if name in _LISTS else None, help=text + shown)
        if command.settings:
            sub.add_argument("--config", metavar="FILE", help="settings in TOML, keys like bootstrap_servers")
        if command.more is not None:
            command.more(sub)
    return top


def _transactions(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--state", choices=sorted(NAMES.values()), help="only this state")
    sub.add_argument("--prefix", metavar="TEXT", help="only ids that begin so")
    sub.add_argument("--min-age", metavar="DURATION", help="only those open for longer: 90s, 15m, 24h, 7d")
    sub.add_argument("--producer-id", metavar="N", help="only those of this producer id")
    sub.add_argument("--topic", metavar="NAME", help="only those open on this topic")
    sub.add_argument("--q", metavar="TEXT", help="only ids that contain this")
    sub.add_argument("--sort", choices=("age", "last_updated", "transactional_id"), help="order (default: age)")
    sub.add_argument("--limit", metavar="N", type=_positive, default=50, help="rows at most (default: 50)")
    _json(sub)


def _transaction(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("id", metavar="ID", help="the transactional.id")
    sub.add_argument(
        "--limit", metavar="N", type=_positive, default=20, help="rows of its timeline at most (default: 20)"
    )
    _json(sub)


def _expiring(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--within", metavar="DURATION", help="only those that expire so soon: 90s, 24h (default), 7d")
    sub.add_argument("--limit", metavar="N", type=_positive, default=50, help="rows at most (default: 50)")
    _json(sub)


def _findings(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--kind", choices=KINDS, metavar="KIND", help=f"only this kind: {', '.join(KINDS)}")
    sub.add_argument("--severity", choices=SEVERITIES, help="only this severity")
    sub.add_argument("--status", choices=STATUSES, help="only this status (default: candidates and confirmed ones)")
    sub.add_argument("--all", action="store_true", help="resolved ones, too")
    sub.add_argument("--transactional-id", metavar="ID", help="only those about this id")
    sub.add_argument("--topic", metavar="NAME", help="only those about this topic")
    sub.add_argument("--partition", metavar="N", help="only those about this partition")
    sub.add_argument("--limit", metavar="N", type=_positive, default=50, help="rows at most (default: 50)")
    _json(sub)


def _partitions(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--lagging", action="store_true", help="only those whose LSO stands below the high watermark")
    sub.add_argument("--topic", metavar="NAME", help="only those of this topic")
    sub.add_argument("--limit", metavar="N", type=_positive, default=50, help="rows at most (default: 50)")
    _json(sub)


def _hanging(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--allow-partial", action="store_true", help="0, not 4, if not everything can be judged")
    sub.add_argument("--limit", metavar="N", type=_positive, default=50, help="so many at most (default: 50)")
    _json(sub)


def _groups(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--blocked", action="store_true", help="only those that wait or soon will")
    sub.add_argument("--limit", metavar="N", type=_positive, default=50, help="rows at most (default: 50)")
    _json(sub)


def _inspect(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("files", metavar="FILE", nargs="+", help="a segment (.log), or a directory of them")
    sub.add_argument("--as", dest="kind", choices=("log", "data"), help="transaction log or data (default: by itself)")


def _explain(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("place", metavar="TOPIC-PARTITION@OFFSET", help="the record; with --segments @OFFSET is enough")
    sub.add_argument("--to", metavar="OFFSET", type=_number, help="all from there up to before this offset")
    sub.add_argument(
        "--segments",
        metavar="FILE",
        nargs="+",
        help="ask these segments (.log) or directories of them, not the service; __transaction_state gives names",
    )
    _json(sub)


def _json(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--json", action="store_true", help="the service's JSON instead of a table")


def _resolve(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("finding", metavar="FINDING_ID", help="a confirmed hanging transaction")
    sub.add_argument("--execute", action="store_true", help="write the marker (default: only say what it would be)")
    _json(sub)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no offset")
    return int(text)


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


COMMANDS: Final = (
    Command(
        "watch", "watch", "the streaming application and the service, supervised together", (*_KAFKA, "host", "port")
    ),
    Command("ingest", "ingest", "the streaming application alone", (*_KAFKA, "liveness")),
    Command("serve", "serve", "the service alone", ("host", "port", "store", "bootstrap_servers", "kafka_config")),
    Command("transactions", "transactions", "a table of transactional.ids, from the service", _SERVICE, _transactions),
    Command("transaction", "transaction", "one transactional.id in full, from the service", _SERVICE, _transaction),
    Command(
        "hanging", "hanging", "transactions nobody will end, and the way out, from the service", _SERVICE, _hanging
    ),
    Command("partitions", "partitions", "a table of data partitions, from the service", _SERVICE, _partitions),
    Command("findings", "findings", "what is wrong or about to be, from the service", _SERVICE, _findings),
    Command("expiring", "expiring", "the transactional.ids that expire soon, from the service", _SERVICE, _expiring),
    Command("groups", "groups", "consumer groups behind open transactions, from the service", _SERVICE, _groups),
    Command(
        "resolve",
        "resolve",
        "ends a hanging transaction with the marker it lacks",
        (*_SERVICE, "operator_key_file"),
        _resolve,
    ),
    Command("explain", "explain", "whose the records are, and how their transaction ended", _SERVICE, _explain),
    Command("inspect", "inspect", "decodes broker segment files, one line a batch or transition", (), _inspect),
    Command(
        "doctor",
        "doctor",
        "what txnscope may see of a cluster, which verdicts that allows, which ACLs are missing",
        ("bootstrap_servers", "kafka_config", "topics", "mirrored"),
    ),
    Command("migrate", "migrate", "brings the store's schema to head", ("store",)),
)
