"""`txnscope inspect FILE…`: prints broker segment files as lines of text, without a broker or a store."""

from __future__ import annotations

from argparse import Namespace

from service.cli.errors import FINE
from service.cli.segments.lines import data_lines, log_lines
from service.cli.segments.transaction_logs import JudgedLogs, open_segments
from service.settings import Settings


def run(flags: Namespace, _settings: Settings) -> int:
    """Prints the lines. Bytes that cannot be decoded are shown as lines, too. Raises CommandFailed (2) for a path that
    cannot be read."""
    files = [*open_segments(flags.files, flags.kind)]
    logs = JudgedLogs(files)
    for file in files:
        if len(files) > 1:
            print(f"# {file.path}: {'transaction log' if file.is_log else 'data'}")
        for line in log_lines(file.data, logs.causes(file.path)) if file.is_log else data_lines(file.data, logs):
            print(line)
    return FINE
