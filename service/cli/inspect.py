"""`txnscope inspect FILE…`: broker segment files as lines of text, with no broker and no store."""

from __future__ import annotations

import re
from argparse import Namespace
from itertools import islice
from pathlib import Path
from typing import Final

from service.cli.errors import FINE
from service.cli.segment_files import map_file, segments
from service.cli.segment_lines import data_lines, log_lines
from service.settings import Settings
from service.wire.batches import Batch, read_batches
from service.wire.errors import DecodeError
from service.wire.records import Record, read_records
from service.wire.transaction_log import decode_key, decode_value

_LOG_DIRECTORY: Final = re.compile(r"__transaction_state-\d+")
_LOOKED_AT: Final = 20
"""Batches that decide what a file in an unknown directory is."""


def run(flags: Namespace, _settings: Settings) -> int:
    """CommandFailed (2) for a path that cannot be read; bytes that cannot be decoded are lines like others."""
    paths = [path for name in flags.files for path in segments(Path(name))]
    for path in paths:
        data = map_file(path)
        is_log = flags.kind == "log" if flags.kind else _is_log(path, data)
        if len(paths) > 1:
            print(f"# {path}: {'transaction log' if is_log else 'data'}")
        for line in (log_lines if is_log else data_lines)(data):
            print(line)
    return FINE


def _is_log(path: Path, data: bytes) -> bool:
    """By the directory a broker keeps it in, else by whether a record reads as one of the transaction log."""
    if _LOG_DIRECTORY.fullmatch(path.absolute().parent.name):
        return True
    return any(_is_transition(record) for batch in islice(read_batches(data), _LOOKED_AT) for record in _records(batch))


def _records(batch: object) -> list[Record]:
    if not isinstance(batch, Batch) or batch.header.is_control:
        return []
    try:
        return read_records(batch)
    except DecodeError:
        return []


def _is_transition(record: Record) -> bool:
    if record.value is None:
        return False
    try:
        decode_key(record.key)
        decode_value(record.value)
    except DecodeError:
        return False
    return True
