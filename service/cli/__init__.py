"""The command line `txnscope`: flags in, exit code out; a failure is one line and never a traceback."""

from __future__ import annotations

import importlib
import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from service import settings
from service.cli.errors import FINE, USAGE, CommandFailed
from service.cli.parser import Command, parser

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; SystemExit(2) for a bad flag, SystemExit(0) for --help and --version."""
    flags = parser().parse_args(argv)
    command: Command = flags.command
    try:
        loaded = _settings(flags, command)
        code: int = importlib.import_module(f"service.cli.{command.module}").run(flags, loaded)
        sys.stdout.flush()
        return code
    except settings.SettingsError as error:
        return _failed(command, str(error), USAGE)
    except CommandFailed as error:
        return _failed(command, str(error), error.code)
    except BrokenPipeError:  # `| head` has seen enough; Python would complain again when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return _INTERRUPTED


def _settings(flags: Namespace, command: Command) -> settings.Settings:
    """A command without settings does not look at them: a bad TXNSCOPE_PORT is nothing to `inspect`."""
    if not command.settings:
        return settings.Settings.model_construct()
    return settings.load({name: getattr(flags, name) for name in command.settings}, flags.config)


def _failed(command: Command, text: str, code: int) -> int:
    print(f"txnscope {command.name}: {text}", file=sys.stderr)
    return code
