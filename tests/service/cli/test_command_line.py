"""Tests that a mistake of the user is reported in one line, with exit code 2. Any other failure has exit code 3."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from service.cli import main, parser
from tests.helpers.builders import transaction_log as build
from tests.helpers.damaged_pages import overwrite
from tests.helpers.paths import ROOT

GOLDEN = next((ROOT / "tests/golden/4.3.1/mixed/__transaction_state-0").glob("*.log"))
COMMANDS = tuple(command.name for command in parser.COMMANDS)


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clears the settings in the environment, and changes to a temporary directory. Commands create the default store
    there."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TXNSCOPE_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Restores the handlers of SIGTERM and SIGINT. A long-running command replaces them even if it fails at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def ended(*arguments: str) -> int:
    """Runs a command, and returns its exit code, also if the command raises SystemExit."""
    try:
        return main(list(arguments))
    except SystemExit as ending:
        return int(ending.code or 0)


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the only line on stderr, and checks that stdout is empty."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("\n")
    assert captured.err.count("\n") == 1
    return captured.err.rstrip()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("", "COMMAND"),
        ("wach", "'wach'"),
        ("--prot", "--prot"),
        ("serve --prot 1", "--prot"),
        ("serve --por 1", "--por 1 (did you mean --port?)"),
        ("watch --bootstrap-server h:1", "--bootstrap-server h:1 (did you mean --bootstrap-servers?)"),
        ("serve --port", "--port"),
        ("serve --port x", "--port: 'x'"),
        ("serve --port 0", "--port: '0'"),
        ("serve --port 65536", "--port: '65536'"),
        ("serve --host no.such.host.invalid", "--host no.such.host.invalid"),
        ("serve --host 192.0.2.1", "--host 192.0.2.1"),
        ("serve --store nothing", "store 'nothing'"),
        (
            "ingest --bootstrap-servers b:1 --partitions all",
            "--partitions: 'all' needs --topics, because it reads every byte",
        ),
        ("serve --store=", "--store: ''"),
        ("serve --store mysql://h/d", "store mysql://h/d"),
        ("serve --bootstrap-servers nowhere", "--bootstrap-servers: 'nowhere'"),
        ("serve --bootstrap-servers h:1 --kafka-config missing.properties", "missing.properties"),
        ("serve --config missing.toml", "--config missing.toml"),
        ("migrate --store sqlite:////no/such/dir/x.db", "no directory /no/such/dir"),
        ("ingest", "--bootstrap-servers"),
        ("ingest --bootstrap-servers nowhere", "'nowhere'"),
        ("ingest --bootstrap-servers h:1 --kafka-config missing.properties", "missing.properties"),
        ("ingest --bootstrap-servers h:1 --store nothing", "store 'nothing'"),
        ("watch", "--bootstrap-servers"),
        ("watch --bootstrap-servers h:1,h", "'h'"),
        ("watch --bootstrap-servers h:1 --host 192.0.2.1", "--host 192.0.2.1"),
        (f"migrate --store sqlite:////{'d' * 300}/x.db", "dd: File name too long"),
        ("transactions --url host:80", "--url: 'host:80'"),
        ("transactions --url http://host/\u00fc", "--url: 'http://host/\u00fc'"),
        ("transactions --state Open", "'Open'"),
        ("transactions --limit none", "'none'"),
        ("transactions --sort size", "'size'"),
        ("findings --kind nothing", "'nothing' (choose from 'hanging_transaction', "),
        ("findings --severity high", "'high' (choose from 'critical', 'warning', 'info')"),
        ("findings --status open", "'open' (choose from 'candidate', "),
        ("audit --action nothing", "'nothing' (choose from 'resolve', "),
        ("transaction", "ID"),
        ("transaction pay --limit 0", "'0'"),
        ("expiring --limit none", "'none'"),
        ("expiring soon", "soon"),
        ("inspect", "FILE"),
        ("inspect --as text f", "'text'"),
        ("inspect no/such.log", "no/such.log"),
        (f"inspect {'f' * 300}", "ff: File name too long"),
    ],
)
def test_a_mistake_of_the_user_is_one_line_and_exit_code_2(
    line: str, names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(*line.split()) == 2
    assert names in complaint(capsys)


def test_a_foreign_file_is_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    Path("foreign.db").write_text("something else")
    assert ended("migrate", "--store", "sqlite:///foreign.db") == 2
    assert "sqlite:///foreign.db: file is not a database; if it was a store, `txnscope" in complaint(capsys)


def test_a_store_of_another_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("migrate", "--store", "sqlite:///new.db") == 0
    with closing(sqlite3.connect("new.db")) as store:
        store.execute("UPDATE alembic_version SET version_num = 'r9999'")
        store.execute("UPDATE readable_since SET revision = 'r9999'")
        store.commit()
    assert ended("migrate", "--store", "sqlite:///new.db") == 2
    assert "it is newer than this version of txnscope" in complaint(capsys)


def test_a_rebuild_reports_what_was_saved_and_where_the_old_file_is(capsys: pytest.CaptureFixture[str]) -> None:
    store = ("--store", "sqlite:///old.db")
    assert ended("migrate", "--rebuild", *store) == 3
    assert "there is no such file" in complaint(capsys)
    assert ended("migrate", *store) == 0
    assert ended("migrate", "--rebuild", *store) == 0
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[1:]) == (
        "",
        ["the transaction log is read again at the next start of the application"],
    )
    assert err.startswith("saved 0 rows; the old file is old.db.damaged-")
    overwrite(Path("old.db"), [1])
    assert ended("migrate", "--rebuild", *store) == 0
    said = capsys.readouterr().err
    assert "read only in part: " in said
    assert "counts start at zero: the old counts cannot be read\n" in said


@pytest.mark.parametrize("command", ["serve", "watch --bootstrap-servers 127.0.0.1:1"])
def test_a_taken_port_is_one_line_and_exit_code_3(
    command: str, taken_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(*command.split(), "--port", str(taken_port)) == 3
    assert complaint(capsys).endswith(f"port {taken_port} is in use: choose another with --port")


def test_an_unreachable_url_is_one_line_and_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("transactions", "--url", "http://127.0.0.1:1") == 3
    assert complaint(capsys) == ("txnscope transactions: no answer from http://127.0.0.1:1 (--url): Connection refused")


@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@host:port/db", "mysql://me:secret@host/db", "postgresql://me:se/cret@host:port/db"]
)
def test_an_error_does_not_repeat_the_password_of_a_url(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("migrate", "--store", url) == 2
    line = complaint(capsys)
    assert "***@host" in line
    assert "cret" not in line


@pytest.mark.parametrize("url", ["http://ann:se cret@host:1", "http://ann:se/cret@host:99999", "ftp://ann:secret@host"])
def test_an_error_does_not_show_the_address_of_a_service_with_a_password(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("transactions", "--url", url) == 2
    line = complaint(capsys)
    assert "is not a URL" in line
    assert "cret" not in line


def test_a_locked_store_is_one_line_and_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("migrate", "--store", "sqlite:///busy.db") == 0
    with closing(sqlite3.connect("busy.db")) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        assert ended("migrate", "--store", "sqlite:///busy.db?timeout=0.01") == 3
    assert "locked" in complaint(capsys)


def test_migrate_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("migrate") == 0
    assert Path("txnscope.db").exists()
    assert ended("migrate") == 0
    assert capsys.readouterr() == ("", "")


def test_help_has_one_line_for_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("--help") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for command in COMMANDS:
        (line,) = (words for words in lines if words[:1] == [command])
        assert len(line) > 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(command, "--help") == 0
    output = capsys.readouterr().out
    assert f"txnscope {command}" in output
    assert "Undefined" not in output, "the help shows a default that does not exist"


def test_a_closed_pipe_is_no_error() -> None:
    """A reader may close the pipe early, as in `txnscope inspect … | head -1`."""
    command = [sys.executable, "-m", "service.cli", "inspect", *[str(GOLDEN)] * 200]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_full_disk_is_one_line_and_exit_code_3() -> None:
    command = [sys.executable, "-m", "service.cli", "inspect", str(GOLDEN)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (3, "txnscope inspect: output: No space left on device\n")


def test_characters_that_the_terminal_cannot_show_are_escaped(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(build.transition("gr\u00fcn", 0, timestamp_ms=1_700_000_000_000, data=build.value()))
    (tmp_path / "\udcff.log").write_bytes(b"")
    command = [sys.executable, "-m", "service.cli", "inspect", str(tmp_path)]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b" Ongoing gr\\xfcn " in done.stdout
    assert b"\\udcff.log" in done.stdout


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
def test_bash_completes_commands_flags_and_values(
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
def test_other_shells_have_a_completion_script_too(shell: str, begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(shell, capsys)
    assert script.startswith(begins)
    assert "--remediation-config" in script


def test_an_unknown_shell_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--completion", "fish"])
    assert ended.value.code == 2
    assert "choose from" in capsys.readouterr().err
