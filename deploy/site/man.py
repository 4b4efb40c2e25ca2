"""Makes the man page of `txnscope` from the parser of its flags."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Final

from argparse_manpage.manpage import Manpage

from service.cli.parser import build_parser

ROOT: Final = Path(__file__).parents[2]


def declared_version() -> str:
    """Returns the version that pyproject.toml declares."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def man_page() -> str:
    """Returns the source of txnscope(1), with all commands. Its date is that of SOURCE_DATE_EPOCH if this variable is
    set, otherwise today."""
    parser = build_parser()
    for command in commands_of(parser).values():
        # in one line: the library breaks lines itself, and takes the line breaks of argparse for parts of words
        command.usage = " ".join(command.format_usage().split()).removeprefix("usage: ")
    about = {
        "project_name": "txnscope",
        "version": declared_version(),
        "manual_title": "txnscope",
        "description": str(parser.description).rstrip("."),
    }
    return str(Manpage(parser, about))


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Returns the parsers of the commands, keyed by name."""
    (action,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)
