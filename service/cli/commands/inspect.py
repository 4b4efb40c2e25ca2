"""`txnscope inspect FILE…`: prints broker segment files as lines of text, without a broker or a store."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from service.cli.errors import FINE
from service.cli.segments.files import is_transaction_log, map_file, segments
from service.cli.segments.lines import data_lines, log_lines
from service.settings import Settings


def run(flags: Namespace, _settings: Settings) -> int:
    """Prints the lines. CommandFailed (2) for a path that cannot be read; bytes that cannot be decoded become lines."""
    paths = [path for name in flags.files for path in segments(Path(name))]
    for path in paths:
        data = map_file(path)
        is_log = flags.kind == "log" if flags.kind else is_transaction_log(path, data)
        if len(paths) > 1:
            print(f"# {path}: {'transaction log' if is_log else 'data'}")
        for line in (log_lines if is_log else data_lines)(data):
            print(line)
    return FINE
