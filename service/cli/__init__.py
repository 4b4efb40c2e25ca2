"""The command line `txnscope`: flags in, exit code out; a failure is one line and never a traceback."""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from service import settings
from service.cli.errors import FINE, UNREACHABLE, USAGE, CommandFailed
from service.cli.parser import Command, parse

_INTERRUPTED = 130
_CREDENTIALS: Final = re.compile(r"(?<=://)\S*@")
"""Of a URL, also of one that nothing can parse."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; SystemExit(2) for a bad flag, SystemExit(0) for --help and --version."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # an id or a path may hold what the terminal's encoding has not
        sys.stdout.reconfigure(errors="backslashreplace")
    flags = parse(argv)
    command: Command = flags.command
    try:
        loaded = _settings(flags, command)
        code: int = importlib.import_module(f"service.cli.commands.{command.module}").run(flags, loaded)
        sys.stdout.flush()
        return code
    except settings.SettingsError as error:
        return _failed(command, str(error), USAGE)
    except CommandFailed as error:
        return _failed(command, str(error), error.code)
    except BrokenPipeError:  # `| head` has seen enough
        _drop_output()
        return FINE
    except OSError as error:  # what no command expects: a full disk behind stdout, a system out of files
        if error.filename is None:
            _drop_output()
        # not USAGE: a supervisor would give up, and the next try may find room
        return _failed(command, f"{error.filename or 'output'}: {error.strerror or error}", UNREACHABLE)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _settings(flags: Namespace, command: Command) -> settings.Settings:
    """A command without settings does not look at them: a bad TXNSCOPE_PORT is nothing to `inspect`."""
    if not command.settings:
        return settings.Settings.model_construct()
    return settings.load({name: getattr(flags, name) for name in command.settings}, flags.config)


def _failed(command: Command, text: str, code: int) -> int:
    """Passwords stay out: the line may end in a log."""
    print(f"txnscope {command.name}: {_CREDENTIALS.sub('***@', text)}", file=sys.stderr)
    return code


def _drop_output() -> None:
    """What is still buffered goes nowhere: Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
