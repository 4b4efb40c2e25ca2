"""A shell completes commands, flags, their values and files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from service.cli import main

COMPLETE = """
. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
call=$(complete -p txnscope)
call=${call#*-F }
"${call%% *}" txnscope "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def printed(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["--completion", shell])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["hang"], {"hanging"}),
        (["hanging", "--allow"], {"--allow-partial"}),
        (["findings", "--severity", ""], {"critical", "warning", "info"}),
        (["findings", "--kind", "torn"], {"torn_transaction"}),
        (["keys", "re"], {"revoke"}),
        (["watch", "--kafka-config", "cl"], {"client.properties"}),
        (["watch", "--checkpoint", "s"], {"scratch"}),
        (["--comp"], {"--completion"}),
    ],
)
def test_bash_completes(
    typed: list[str], offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(printed("bash", capsys))
    (tmp_path / "client.properties").touch()
    (tmp_path / "scratch").mkdir()
    words = ["bash", "-c", COMPLETE, "bash", str(script), "txnscope", *typed]
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == offered


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef txnscope"), ("tcsh", "# AUTOMATICALLY GENERATED")])
def test_other_shells_have_a_script_too(shell: str, begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(shell, capsys)
    assert script.startswith(begins)
    assert "--remediation-config" in script


def test_a_shell_that_is_not_known_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--completion", "fish"])
    assert ended.value.code == 2
    assert "choose from" in capsys.readouterr().err
