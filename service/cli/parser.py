"""The commands of `txnscope` and their flags, declared once. Settings stay text here: `service.settings` reads them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, NoReturn

from service.access.actions import Action
from service.cli.completion import SHELLS, PrintCompletion
from service.cli.errors import USAGE
from service.cli.version import version
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.transaction_log.states import NAMES
from service.settings import Settings, flag
from service.store.backends import URL_FORMS

_HELP: Final = {
    "bootstrap_servers": ("H:P[,…]", "bootstrap brokers (default: bootstrap.servers of --kafka-config)"),
    "kafka_config": ("FILE", "client.properties, in the format of Kafka's own tools"),
    "remediation_config": (
        "FILE",
        "client.properties of the principal that writes markers (default: that of --kafka-config)",
    ),
    "cluster": ("NAME", "name of the cluster"),
    "store": ("URL", " or ".join(URL_FORMS.values())),
    "checkpoint": ("DIR", "directory for Spark's scratch files"),
    "partitions": ("MODE", "partitions whose batches are read: stalled ones, or all of --topics"),
    "liveness": (
        "FILE|PORT",
        "a file that is touched, or a port that answers, while the application makes progress",
    ),
    "spark_master": ("URL", "spark://HOST:PORT, yarn, k8s://… (default: Spark runs on two cores of this machine)"),
    "spark_conf": ("KEY=VALUE", "settings of Spark, as for spark-submit --conf"),
    "operator_key_file": ("FILE", "file with an operator's key (older name of --key-file)"),
    "key_file": ("FILE", "file with your key of the service, from `txnscope keys create`"),
    "ca": ("FILE", "authorities (PEM) that may sign the service's certificate (default: those of the system)"),
    "client_cert": ("FILE", "your certificate and its key (PEM), if the service needs one"),
    "tls_cert": ("FILE", "certificate (PEM) to serve with; read again when it changes"),
    "tls_key": ("FILE", "key (PEM) of --tls-cert"),
    "tls_client_ca": ("FILE", "authorities (PEM) that must have signed each client's certificate"),
    "insecure": ("", "serve other machines without authentication or TLS"),
    "mcp": ("", "also answer language models, at /mcp (Model Context Protocol)"),
    "allowed_hosts": ("HOST", "more host names under which the service answers, beside --host and loopback"),
    "topics": ("GLOB", "topics to watch (default: all)"),
    "mirrored": ("GLOB", "topics to leave out: byte-for-byte copies from another cluster"),
    "host": ("HOST", "address to serve on"),
    "port": ("PORT", "port to serve on"),
    "url": ("URL", "address of the service"),
}
_LISTS: Final = ("topics", "mirrored", "spark_conf", "allowed_hosts")
_SWITCHES: Final = ("insecure", "mcp")
_SPARK: Final = ("spark_master", "spark_conf")
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
_SERVICE: Final = ("url", "cluster", "key_file", "ca", "client_cert")
_TLS: Final = ("tls_cert", "tls_key", "tls_client_ca", "insecure")
_SERVED: Final = ("host", "port", *_TLS, "allowed_hosts", "remediation_config", "mcp")


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
        description="Shows what every Kafka transaction is doing, and how it ended.",
        epilog="Settings come from flags, then TXNSCOPE_* (TXNSCOPE_PORT is --port), then the TOML file of --config.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"txnscope {version()}")
    top.add_argument(
        "--completion",
        choices=SHELLS,
        action=PrintCompletion,
        help="print a script with which this shell completes commands and flags",
    )
    # not required: argparse would report the missing command before a flag that does not exist
    top.set_defaults(command=None)
    subparsers = top.add_subparsers(metavar="COMMAND")
    for command in COMMANDS:
        sub = subparsers.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        sub.set_defaults(command=command)
        for name in command.settings:
            metavar, text = _HELP[name]
            if name in _SWITCHES:
                _switch(sub, flag(name), text)
                continue
            default = Settings.model_fields[name].get_default(call_default_factory=True)
            shown = f" (default: {default})" if default else ""
            many: dict[str, Any] = {"nargs": "+", "action": "extend"} if name in _LISTS else {}
            sub.add_argument(flag(name), metavar=metavar, help=text + shown, **many)
        if command.settings:
            sub.add_argument(
                "--config", metavar="FILE", help="TOML file with settings, with keys like bootstrap_servers"
            )
        if command.more is not None:
            command.more(sub)
    return top


def _transactions(sub: argparse.ArgumentParser) -> None:
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
    _limited_json(sub)


def _transaction(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("id", metavar="ID", help="the transactional.id")
    _limited_json(sub, "timeline rows", most=20)


def _expiring(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--within", metavar="DURATION", help="only ids that expire within this time: 90s, 24h (default), 7d"
    )
    _application(sub, "ids")
    _limited_json(sub)


def _words(of: type[StrEnum]) -> list[str]:
    """Returns the words as plain text: argparse shows choices by their repr."""
    return [str(word) for word in of]


def _findings(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--kind", choices=_words(Kind), metavar="KIND", help=f"only this kind: {', '.join(Kind)}")
    sub.add_argument("--severity", choices=_words(Severity), help="only this severity")
    sub.add_argument("--status", choices=_words(Status), help="only this status (default: candidate and confirmed)")
    sub.add_argument("--all", action="store_true", help="include resolved findings")
    sub.add_argument("--transactional-id", metavar="ID", help="only findings about this id")
    sub.add_argument("--topic", metavar="NAME", help="only findings about this topic")
    sub.add_argument("--partition", metavar="N", help="only findings about this partition")
    _application(sub, "findings about ids")
    _limited_json(sub)


def _partitions(sub: argparse.ArgumentParser) -> None:
    _switch(sub, "--lagging", "only partitions whose LSO is stalled below the high watermark")
    sub.add_argument("--topic", metavar="NAME", help="only partitions of this topic")
    _application(sub, "partitions with an open transaction")
    _limited_json(sub)


def _hanging(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--allow-partial", action="store_true", help="exit with 0 instead of 4 if not everything can be judged"
    )
    _application(sub, "transactions")
    _limited_json(sub, "findings")


def _groups(sub: argparse.ArgumentParser) -> None:
    _switch(sub, "--blocked", "only blocked groups: stopped, about to stop, or unable to fetch their offsets")
    _application(sub, "groups behind an open transaction")
    _limited_json(sub)


def _inspect(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("files", metavar="FILE", nargs="+", help="a segment (.log), or a directory of segments")
    sub.add_argument("--as", dest="kind", choices=("log", "data"), help="transaction log or data (default: detected)")


def _explain(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("place", metavar="TOPIC-PARTITION@OFFSET", help="the record; with --segments, @OFFSET is enough")
    sub.add_argument("--to", metavar="OFFSET", type=_number, help="end of the range, exclusive")
    sub.add_argument(
        "--segments",
        metavar="FILE",
        nargs="+",
        help="read these segments (.log) or directories, not the service; ids come from those of __transaction_state",
    )
    _json(sub)


def _switch(sub: argparse.ArgumentParser, name: str, text: str) -> None:
    sub.add_argument(name, action="store_const", const="true", help=text)


def _application(sub: argparse.ArgumentParser, what: str) -> None:
    sub.add_argument("--application", metavar="NAME", help=f"only {what} of this application")


def _json(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--json", action="store_true", help="print the service's JSON instead of a table")


def _limited_json(sub: argparse.ArgumentParser, of: str = "rows", most: int = 50) -> None:
    text = f"maximum number of {of} (default: {most})"
    sub.add_argument("--limit", metavar="N", type=_positive, default=most, help=text)
    _json(sub)


def _resolve(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("finding", metavar="FINDING_ID", help="id of the finding of a confirmed hanging transaction")
    sub.add_argument("--execute", action="store_true", help="write the marker (default: dry run)")
    _json(sub)


def _migrate(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--rebuild",
        action="store_true",
        help="replace a damaged file by a new one: save what can be read, and have the transaction log read again",
    )


def _keys(sub: argparse.ArgumentParser) -> None:
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


def _audit(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--action", choices=_words(Action), help="only this action")
    sub.add_argument("--outcome", metavar="WORD", help="only this outcome: written, refused, dry_run, set, …")
    sub.add_argument("--who", metavar="NAME", help="only actions of this person or key")
    _limited_json(sub)


def _mute(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("finding", metavar="FINDING_ID", nargs="?", help="mute this finding")
    sub.add_argument("--prefix", metavar="TEXT", help="mute findings of ids with this prefix")
    sub.add_argument("--topic", metavar="GLOB", help="mute findings of these topics")
    sub.add_argument("--for", dest="duration", metavar="DURATION", help="length of the mute: 90m, 4h, 7d")
    sub.add_argument("--reason", metavar="TEXT", help="reason, for colleagues and the audit")
    sub.add_argument("--list", action="store_true", help="list the mutes in effect")
    sub.add_argument("--end", metavar="N", type=_positive, help="end the mute with this number")
    _json(sub)


def _notify(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--test",
        metavar="RECEIVER",
        nargs="?",
        const="",
        help="send a test to this receiver of [[notify]], or to all of them",
    )
    _json(sub)


def _acknowledge(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("finding", metavar="FINDING_ID", help="id of the finding")
    sub.add_argument("--reason", metavar="TEXT", help="reason, for colleagues and the audit")
    _json(sub)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not an offset")
    return int(text)


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


COMMANDS: Final = (
    Command(
        "watch",
        "watch",
        "runs the streaming application and the service, supervised together",
        (*_KAFKA, *_SPARK, *_SERVED),
    ),
    Command("ingest", "ingest", "runs the streaming application alone", (*_KAFKA, *_SPARK, "liveness")),
    Command("serve", "serve", "runs the service alone", (*_SERVED, "store", "bootstrap_servers", "kafka_config")),
    Command("transactions", "lists", "lists transactional.ids", _SERVICE, _transactions),
    Command("transaction", "transaction", "shows one transactional.id in full", _SERVICE, _transaction),
    Command(
        "hanging",
        "hanging",
        "lists transactions that no coordinator will end, and their remediation",
        _SERVICE,
        _hanging,
    ),
    Command(
        "applications",
        "lists",
        "lists the applications behind transactional.ids: what is open, ended and failed",
        _SERVICE,
        _limited_json,
    ),
    Command("partitions", "lists", "lists data partitions", _SERVICE, _partitions),
    Command("findings", "lists", "lists what is wrong or about to go wrong", _SERVICE, _findings),
    Command("expiring", "lists", "lists transactional.ids that expire soon", _SERVICE, _expiring),
    Command("groups", "lists", "lists consumer groups on partitions with a stalled LSO", _SERVICE, _groups),
    Command(
        "resolve",
        "resolve",
        "ends a hanging transaction by writing its missing marker",
        (*_SERVICE, "operator_key_file"),
        _resolve,
    ),
    Command("mute", "mute", "mutes findings for a time, with a reason", _SERVICE, _mute),
    Command(
        "acknowledge",
        "acknowledge",
        "acknowledges a finding of lost records or of a torn transaction, which then resolves",
        _SERVICE,
        _acknowledge,
    ),
    Command("notify", "notify", "shows the state of deliveries, or sends a test to receivers", _SERVICE, _notify),
    Command("audit", "lists", "lists what people did, tried, or were refused", _SERVICE, _audit),
    Command("keys", "keys", "creates, lists and revokes keys of the service, in its store", ("store",), _keys),
    Command("explain", "explain", "shows who wrote records, and how their transactions ended", _SERVICE, _explain),
    Command(
        "mcp",
        "mcp",
        "answers a language model on stdin and stdout (Model Context Protocol), over the service; reads only",
        ("url", "key_file", "ca", "client_cert"),
    ),
    Command("inspect", "inspect", "decodes broker segment files, one line for each batch or transition", (), _inspect),
    Command(
        "doctor",
        "doctor",
        "reports what txnscope may see of a cluster, which verdicts that allows, and which ACLs are missing",
        ("bootstrap_servers", "kafka_config", "topics", "mirrored"),
    ),
    Command("migrate", "migrate", "migrates the store's schema to this version", ("store",), _migrate),
)
