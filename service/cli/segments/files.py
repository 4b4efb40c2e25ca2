"""Broker segment files that a command line names, one by one or by their directory."""

from __future__ import annotations

import mmap
import re
from itertools import islice
from pathlib import Path
from typing import Final, cast

from service.cli.errors import CommandFailed
from service.wire.batches import Batch, read_batches
from service.wire.errors import DecodeError
from service.wire.records import Record, read_records
from service.wire.transaction_log import decode_key, decode_value

_LOG_DIRECTORY: Final = re.compile(r"__transaction_state-\d+")
_LOOKED_AT: Final = 20
"""Number of first batches that decide whether a file in an unknown directory is a segment of the transaction log."""


def segments(path: Path) -> list[Path]:
    """Returns the file, or the files of a directory in the order of their offsets. CommandFailed if there is none."""
    try:
        if not path.is_dir():
            return [path]
        found = sorted(path.glob("*.log"))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from None
    if not found:
        raise CommandFailed(f"{path}: no .log file in this directory")
    return found


def map_file(path: Path) -> bytes:
    """Maps the file instead of reading it: a segment holds a gigabyte by default. Slices of a map are bytes, which is
    all that decoders need.

    CommandFailed if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return cast(bytes, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if file.seek(0, 2) else b""
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from None


def is_transaction_log(path: Path, data: bytes) -> bool:
    """Returns whether the file is a segment of the transaction log: by the directory in which a broker keeps it, else
    by whether one of its first records decodes as one of that log.
    """
    if _LOG_DIRECTORY.fullmatch(path.absolute().parent.name):
        return True
    return any(
        _is_transition(record) for batch in islice(read_batches(data), _LOOKED_AT) for record in records_of(batch)
    )


def records_of(batch: object) -> list[Record]:
    """Returns the records of a batch; none of a control batch, or of one that cannot be read."""
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
