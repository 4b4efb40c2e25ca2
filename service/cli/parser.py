"""The commands of `txnscope` and their flags, declared once. Settings stay text here: `service.settings` reads them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from service.cli import command_flags
from service.cli.completion import SHELLS, PrintCompletion
from service.cli.errors import USAGE
from service.cli.version import PrintVersion
from service.settings import Settings, flag
from service.settings.mistakes import did_you_mean
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

    `module`: the name of the module in `service.cli.commands` that has the function `run(flags, settings) -> int`. The
    module is imported only when the command runs.
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

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Raises SystemExit(2) for an unknown argument. Its message suggests the command's flag that is most like the
        argument."""
        flags, unknown = super().parse_known_args(args, namespace)
        if unknown:
            given = unknown[0].partition("=")[0]
            known = [name[2:].replace("-", "_") for action in self._actions for name in action.option_strings]
            hint = did_you_mean(given[2:], known, flag) if given.startswith("--") else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return flags, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Returns the flags. `flags.command` is the `Command`; each setting that the command takes is an attribute, too.
    Raises SystemExit: 2 for a bad flag or a missing command, 0 after --help, --version and --completion.
    """
    top = build_parser()
    flags = top.parse_args(argv)
    if flags.command is None:
        top.error(f"COMMAND is missing: one of {', '.join(command.name for command in COMMANDS)}")
    return flags


def build_parser() -> Parser:
    """Returns the parser of all commands and their flags."""
    top = Parser(
        prog="txnscope",
        description="Shows what every Kafka transaction is doing, and how it ended.",
        epilog="Settings come from flags, then TXNSCOPE_* (TXNSCOPE_PORT is --port), then the TOML file of --config.",
        allow_abbrev=False,
    )
    top.add_argument(
        "--version", nargs=0, action=PrintVersion, help="print the version, and the revision of its source"
    )
    top.add_argument(
        "--completion",
        choices=SHELLS,
        action=PrintCompletion,
        help="print a script with which this shell completes commands and flags",
    )
    # not required: argparse would report the missing command before a flag that does not exist
    top.set_defaults(command=None)
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        sub = subparsers.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        sub.set_defaults(command=command)
        for name in command.settings:
            metavar, text = _HELP[name]
            if name in _SWITCHES:
                command_flags.switch(sub, flag(name), text)
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


COMMANDS: Final = (
    Command(
        "watch",
        "watch",
        "runs the streaming application and the service, supervised together",
        (*_KAFKA, *_SPARK, *_SERVED),
    ),
    Command("ingest", "ingest", "runs the streaming application alone", (*_KAFKA, *_SPARK, "liveness")),
    Command("serve", "serve", "runs the service alone", (*_SERVED, "store", "bootstrap_servers", "kafka_config")),
    Command("transactions", "lists", "lists transactional.ids", _SERVICE, command_flags.transactions),
    Command("transaction", "transaction", "shows one transactional.id in full", _SERVICE, command_flags.transaction),
    Command(
        "hanging",
        "hanging",
        "lists transactions that no coordinator is set to end, and their remediation",
        _SERVICE,
        command_flags.hanging,
    ),
    Command(
        "applications",
        "lists",
        "lists the applications behind transactional.ids: what is open, ended and failed",
        _SERVICE,
        command_flags.limited_json,
    ),
    Command("partitions", "lists", "lists data partitions", _SERVICE, command_flags.partitions),
    Command("findings", "lists", "lists what is wrong or about to go wrong", _SERVICE, command_flags.findings),
    Command("expiring", "lists", "lists transactional.ids that expire soon", _SERVICE, command_flags.expiring),
    Command(
        "groups", "lists", "lists consumer groups on partitions with a stalled LSO", _SERVICE, command_flags.groups
    ),
    Command(
        "resolve",
        "resolve",
        "ends a hanging transaction by writing its missing marker",
        (*_SERVICE, "operator_key_file"),
        command_flags.resolve,
    ),
    Command("mute", "mute", "mutes findings for a time, with a reason", _SERVICE, command_flags.mute),
    Command(
        "acknowledge",
        "acknowledge",
        "acknowledges a finding of lost records or of a torn transaction: the finding then resolves",
        _SERVICE,
        command_flags.acknowledge,
    ),
    Command(
        "notify",
        "notify",
        "shows the state of deliveries, or sends a test to receivers",
        _SERVICE,
        command_flags.notify,
    ),
    Command(
        "audit", "lists", "lists what people and programs did, tried, or were refused", _SERVICE, command_flags.audit
    ),
    Command(
        "keys", "keys", "creates, lists and revokes keys of the service, in its store", ("store",), command_flags.keys
    ),
    Command(
        "explain",
        "explain",
        "shows who wrote records, and how their transactions ended",
        _SERVICE,
        command_flags.explain,
    ),
    Command(
        "mcp",
        "mcp",
        "answers a language model on stdin and stdout (Model Context Protocol) with the service's data; read-only",
        ("url", "key_file", "ca", "client_cert"),
    ),
    Command(
        "inspect",
        "inspect",
        "decodes broker segment files, one line for each batch or transition",
        (),
        command_flags.inspect,
    ),
    Command(
        "doctor",
        "doctor",
        "reports what txnscope may see of a cluster, which verdicts that allows, and which ACLs are missing",
        ("bootstrap_servers", "kafka_config", "topics", "mirrored"),
    ),
    Command("migrate", "migrate", "migrates the store's schema to this version", ("store",), command_flags.migrate),
)
