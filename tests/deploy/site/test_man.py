"""Tests that the man page has every command and flag, and that groff reports no problem."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("argparse_manpage", reason="argparse-manpage is not installed (make venv)")

from deploy.site.man import commands_of, declared_version, man_page
from service.cli.parser import COMMANDS, build_parser
from tests.helpers.waiting import LIMIT_S


def plain(page: str) -> str:
    return re.sub(r"\\f[BIR]|\\[,/]", "", page).replace(r"\-", "-")


def test_the_man_page_has_every_command_with_its_flags() -> None:
    whole = plain(man_page())
    parsers = commands_of(build_parser())
    assert list(parsers) == [command.name for command in COMMANDS]
    for name, parser in parsers.items():
        _, found, section = whole.partition(f".SH COMMAND 'txnscope {name}'")
        section = section.partition(".SH COMMAND")[0]
        assert found, name
        for action in parser._actions:
            if isinstance(action, argparse._HelpAction):
                continue
            for flag in action.option_strings:
                assert flag in section, f"{name}: {flag}"
            if action.help:
                assert " ".join(action.help.split()) in " ".join(section.split()), f"{name}: {action.dest}"


def test_the_man_page_names_version_and_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    title = plain(man_page()).splitlines()[0]
    assert title == f'.TH TXNSCOPE "1" "1970-01-01" "txnscope {declared_version()}" "txnscope"'


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed (apt-get install groff)")
def test_groff_has_no_warnings(tmp_path: Path) -> None:
    file = tmp_path / "txnscope.1"
    file.write_text(man_page(), "utf-8")
    formatted = subprocess.run(
        ["groff", "-k", "-man", "-ww", "-Tutf8", str(file)], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert formatted.stderr == ""
    assert "ACKNOWLEDGE" in formatted.stdout.upper()
