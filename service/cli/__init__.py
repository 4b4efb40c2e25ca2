"""The command line `txnscope`: takes flags, returns an exit code. An expected failure is printed as one line, without a
traceback."""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Final

from service import settings
from service.cli.errors import FINE, UNREACHABLE, USAGE, CommandFailed
from service.cli.exposure import warnings
from service.cli.parser import Command, parse
from service.processes.lifeline import LIFELINE

_INTERRUPTED = 130
_CREDENTIALS: Final = re.compile(r"(?<=://)\S*@")
"""Matches the credentials in a URL, even if the URL cannot be parsed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code. Raises SystemExit: 2 for a bad flag or a missing
    command, 0 after --help, --version and --completion."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # ids and paths may hold characters that the terminal lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    flags = parse(argv)
    command: Command = flags.command
    try:
        loaded = _settings(flags, command)
        _warn(flags, command, loaded)
        code: int = importlib.import_module(f"service.cli.commands.{command.module}").run(flags, loaded)
        sys.stdout.flush()
        return code
    except settings.SettingsError as error:
        return _failed(command, str(error), USAGE)
    except CommandFailed as error:
        return _failed(command, str(error), error.code)
    except BrokenPipeError:  # the reader closed the pipe, as `| head` does
        _drop_output()
        return FINE
    except OSError as error:  # not handled by a command: a full disk behind stdout, too many open files
        if error.filename is None:
            _drop_output()
        # not USAGE: a supervisor would give up, but the next start may find space
        return _failed(command, f"{error.filename or 'output'}: {error.strerror or error}", UNREACHABLE)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _settings(flags: Namespace, command: Command) -> settings.Settings:
    """Loads the settings, unless the command takes none: a bad TXNSCOPE_PORT must not stop `inspect`."""
    if not command.settings:
        return settings.Settings.model_construct()
    return settings.load({name: getattr(flags, name) for name in command.settings}, flags.config)


def _warn(flags: Namespace, command: Command, loaded: settings.Settings) -> None:
    """Prints a warning for each file with secrets that others can read, and a note for each key of a client.properties
    and each scheme of a server's address that has no effect. Children of a supervisor print neither, because the
    supervisor has printed them."""
    if command.settings and LIFELINE not in os.environ:
        config = flags.config or os.environ.get(f"{settings.ENV_PREFIX}CONFIG")
        for text in warnings(loaded, command.settings, config):
            print(f"txnscope {command.name}: warning: {text}", file=sys.stderr)
        for text in _notes(command, loaded):
            print(f"txnscope {command.name}: note: {text}", file=sys.stderr)


def _notes(command: Command, loaded: settings.Settings) -> Iterator[str]:
    """Yields a line for each key of a client.properties file, and for each scheme of a server's address, that has no
    effect."""
    if "kafka_config" in command.settings and (loaded.kafka_config or loaded.bootstrap_servers or loaded.clusters):
        # imported here, because commands that need no broker should not wait for the library
        from service.cli.kafka import notes

        yield from dict.fromkeys(notes(loaded))


def _failed(command: Command, text: str, code: int) -> int:
    """Prints the failure as one line and returns `code`. Passwords are masked: the line may end up in a log."""
    print(f"txnscope {command.name}: {_CREDENTIALS.sub('***@', text)}", file=sys.stderr)
    return code


def _drop_output() -> None:
    """Redirects stdout to /dev/null: Python would fail again when it flushes the buffered rest at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
