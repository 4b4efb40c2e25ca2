"""Tests that bash gets the intended arguments from a command that a user pastes."""

from __future__ import annotations

import subprocess

import pytest

from service.remediation.checks import argument

IDS = (
    b"pay-1",
    b"",
    b'it\'s $(x) `y` "z" !1 *',
    b"tab\tline\n",
    b"tab\t'quoted' \\x41 \\",
    "\x1b[31mzürich\u202e9".encode(),
    b"\xff\tA",
)


@pytest.mark.parametrize("raw", IDS, ids=ascii)
def test_bash_receives_exactly_the_bytes_of_the_id(raw: bytes) -> None:
    word = argument(raw)
    assert word is not None
    assert word.isprintable()
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert said.stdout == raw


def test_an_id_with_nul_has_no_shell_argument() -> None:
    assert argument(b"nul\0") is None
