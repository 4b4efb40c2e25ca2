"""The names of the command line: commands, flags, arguments, their choices, and exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from service.cli import errors
from service.cli.parser import build_parser


def sections() -> dict[str, list[str]]:
    top = build_parser()
    commands = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction)).choices
    flags = [f"txnscope {name}" for name in _names(top)]
    flags += [f"{command} {name}" for command, parser in commands.items() for name in _names(parser)]
    return {"commands": list(commands), "flags and arguments": flags, "exit codes": list(_exit_codes())}


def _names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields a name for each flag and argument, and for each of its choices. A flag with a value ends with `VALUE`, or
    with `VALUE…` for several values. Also yields `needs NAME` for each argument that is required."""
    for action in parser._actions:  # argparse has no public way to get them
        if isinstance(action, argparse._SubParsersAction):
            continue
        many = "…" if action.nargs in ("+", "*") else ""
        value = "" if action.nargs == 0 else f" VALUE{many}" if action.option_strings else many
        names = action.option_strings or [str(action.metavar or action.dest)]
        for name in names:
            yield name + value
            yield from (f"{name} = {word}" for word in action.choices or ())
        if not action.option_strings and action.nargs not in ("?", "*"):
            yield f"needs {names[0]}"


def _exit_codes() -> Iterator[str]:
    for name, code in vars(errors).items():
        if name.isupper() and isinstance(code, int):
            yield f"{code} {name.lower()}"
