"""`txnscope --completion SHELL`: prints a script with which a shell completes commands, flags and their values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

SHELLS: Final = ("bash", "zsh", "tcsh")


class PrintCompletion(argparse.Action):
    """Prints the script for a shell, and ends the process."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        _option: str | None = None,
    ) -> None:
        import shtab  # here, because no other command needs it

        for action in _actions(parser):
            if action.metavar in ("FILE", "FILE|PORT"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # an attribute that shtab looks for
            elif action.metavar == "DIR":
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        print(shtab.complete(parser, str(values)), end="")
        parser.exit()


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the flags and arguments of a parser and of its commands."""
    for action in parser._actions:  # argparse has no public way to get them
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
