"""Overwrites pages of a SQLite file, as a bad disk does."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url

PAGE = 8192


def file_of(url: str) -> Path:
    return Path(make_url(url).database or "")


def all_of(file: Path) -> list[Path]:
    """Returns the file and the files that SQLite keeps beside it."""
    return list(file.parent.glob(f"{file.name}*"))


def pages_of(file: Path, name: str) -> list[int]:
    """Returns the numbers of the leaf pages of a table or index, in ascending order. Leaf pages hold the rows."""
    with closing(sqlite3.connect(file)) as raw:
        found = raw.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (name,)).fetchall()
    return sorted(number for (number,) in found)


def overwrite(file: Path, pages: Iterable[int]) -> None:
    with file.open("r+b") as out:
        for number in pages:
            out.seek((number - 1) * PAGE)
            out.write(os.urandom(PAGE))
