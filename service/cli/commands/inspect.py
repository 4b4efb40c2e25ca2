"""`txnscope inspect FILE…`: prints broker segment files as lines of text, without a broker or a store."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import NamedTuple

from service.cli.errors import FINE
from service.cli.segments.lines import data_lines, log_lines
from service.cli.segments.transaction_logs import (
    JudgedLogs,
    LogSegment,
    in_order,
    is_transaction_log,
    map_file,
    segments,
)
from service.settings import Settings


def run(flags: Namespace, _settings: Settings) -> int:
    """Prints the lines. CommandFailed (2) for a path that cannot be read; bytes that cannot be decoded become lines."""
    files = [_File.open(path, flags.kind) for name in flags.files for path in segments(Path(name))]
    logs = JudgedLogs(in_order(LogSegment(file.path, file.data) for file in files if file.is_log))
    for path, data, is_log in files:
        if len(files) > 1:
            print(f"# {path}: {'transaction log' if is_log else 'data'}")
        for line in log_lines(data, logs.causes(path)) if is_log else data_lines(data, logs):
            print(line)
    return FINE


class _File(NamedTuple):
    path: Path
    data: bytes
    is_log: bool

    @staticmethod
    def open(path: Path, kind: str | None) -> _File:
        """Opens the file. `kind`: "log" or "data" as --as gives it; None: detected."""
        data = map_file(path)
        return _File(path, data, kind == "log" if kind else is_transaction_log(path, data))
