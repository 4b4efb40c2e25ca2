"""Writes a compressed tar archive. Equal content gives equal bytes: the archive has no times, owners or modes of this
machine."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path


def write_tar(path: Path, files: Iterable[tuple[str, bytes]]) -> Path:
    """Writes the files (name, content) in this order to `path`, and returns `path`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return path
