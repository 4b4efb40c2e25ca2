"""Writes the table of client.properties in docs/running.md: `python -m tests.helpers.client_properties_document`. Each
row is tried on a broker with Kafka's own tools and with `txnscope doctor`."""

from __future__ import annotations

import io
import os
import re
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

from service.cli import main as command
from tests.helpers.client_properties_rows import ENVIRONMENT, ROWS, Row, Stage
from tests.helpers.paths import ROOT
from tests.helpers.secured_broker import SecuredBroker
from tests.integration.producers import create_topic

DOCUMENT: Final = ROOT / "docs" / "running.md"
VERSION: Final = "4.3.1"
TOPIC: Final = "rows"
CONNECTS: Final = "connects"
_HEAD: Final = f"| input | Kafka {VERSION} | `txnscope doctor` |\n|---|---|---|\n"
_PATIENCE: Final = {
    "default.api.timeout.ms": "15000",
    "request.timeout.ms": "14000",
    "max.block.ms": "15000",
    "delivery.timeout.ms": "15000",
}
"""Settings with which Kafka's tools give up earlier. By default, the tools try for a minute to reach a broker that
refuses their connections."""
_SAYS_NOTHING: Final = "The AdminClient thread has exited"
_LONGEST: Final = 150
_CAUSE: Final = re.compile(
    r"^(?:Caused by: )?(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|IllegalArgument\w*): (.+)$", re.MULTILINE
)


def main() -> None:
    with TemporaryDirectory() as directory, staged(Path(directory)) as stage:
        rows = [line(row, by_kafka(stage, row), by_doctor(stage, row)) for row in ROWS]
    text = DOCUMENT.read_text("utf-8")
    DOCUMENT.write_text(text.replace(_table(text), "".join(rows)), "utf-8")


class staged:  # noqa: N801  # used like a function
    """Context manager that yields a Stage: a broker, and the files that rows of the table in docs/running.md name. Use:
    `with staged(directory) as stage`."""

    def __init__(self, directory: Path) -> None:
        self._secured = SecuredBroker(VERSION, directory)

    def __enter__(self) -> Stage:
        self._secured.__enter__()
        create_topic(self._secured.admin, TOPIC)
        return Stage(self._secured)

    def __exit__(self, *failure: object) -> None:
        self._secured.__exit__(None, None, None)


def recorded() -> dict[str, tuple[str, str]]:
    """Returns a mapping from each input to its two outcomes in the document: with Kafka's tool, and with txnscope."""
    rows = _table(DOCUMENT.read_text("utf-8")).splitlines()
    cells = [[cell.replace("\\|", "|") for cell in re.split(r" (?<!\\)\| ", row[2:-2])] for row in rows]
    return {shown: (kafka, ours) for shown, kafka, ours in cells}


def _table(text: str) -> str:
    """Returns the rows of the table in the document, without its head."""
    return text.partition(_HEAD)[2].partition("\n\n")[0] + "\n"


def line(row: Row, kafka: str, ours: str) -> str:
    cells = (cell.replace("|", "\\|") for cell in (row.shown, kafka, ours))
    return f"| {' | '.join(cells)} |\n"


def by_kafka(stage: Stage, row: Row) -> str:
    """Returns the outcome of a row with one of Kafka's tools. If the file names the servers, the tool is
    `kafka-producer-perf-test.sh`, which needs no flag for servers. Otherwise, the tool is `kafka-topics.sh`."""
    file, servers = stage.properties(row, _PATIENCE), stage.servers(row)
    if servers is not None:
        tool = [
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            servers,
            "--command-config",
            str(file),
            "--list",
        ]
    else:
        one = ["--topic", TOPIC, "--num-records", "1", "--record-size", "1", "--throughput", "-1"]
        tool = ["org.apache.kafka.tools.ProducerPerformance", *one, "--command-config", str(file)]
    words = stage.secured.broker.tool_command(*tool)
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env=os.environ | ENVIRONMENT)
    said = done.stdout + done.stderr
    if done.returncode == 0 and (TOPIC in done.stdout.split() or "1 records sent" in done.stdout):
        return CONNECTS
    causes = [one for one in _CAUSE.findall(said) if _SAYS_NOTHING not in one]
    reported = [one.partition(" : ")[2] for one in said.splitlines() if one.startswith("Error while executing")]
    return f"fails: {_short(stage.masked((causes or reported or said.strip().splitlines()[-1:] or ['no output'])[-1]))}"


def by_doctor(stage: Stage, row: Row) -> str:
    servers = stage.servers(row)
    flags = ["--kafka-config", str(stage.properties(row, {}))] + (["--bootstrap-servers", servers] if servers else [])
    out, err = io.StringIO(), io.StringIO()
    with patch.dict(os.environ, ENVIRONMENT), redirect_stdout(out), redirect_stderr(err):
        code = command(["doctor", *flags])
    said = [stage.masked(text).removeprefix("txnscope doctor: ") for text in err.getvalue().splitlines()]
    notes = [_plain(text.removeprefix("note: ")) for text in said if text.startswith("note: ")]
    failure = [_plain(text) for text in said if not text.startswith(("note: ", "warning: "))]
    if code in (0, 1) and not failure:
        assert "cluster " in out.getvalue()
        return "; ".join([CONNECTS, *(f"note: {note}" for note in notes)])
    return f"exit {code}: {failure[0]}"


def _plain(text: str) -> str:
    return text.removeprefix("client properties FILE: ")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: text.rfind(" ", 0, _LONGEST)] + " …"


if __name__ == "__main__":
    main()
