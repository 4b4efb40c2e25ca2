"""Makes the files of a release other than the wheel and the source archive: an SBOM, files from targets of the
Makefile, checksums. Archives of equal content have equal bytes."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from deploy.compose.role_requirements import role
from deploy.release.build import digests
from deploy.release.commands import run

ADDED: Final = ("release-image", "release-chart", "release-docs")
"""Targets of the Makefile that add files to a release. Each target runs in the tree of the release's commit, with the
variables VERSION, REVISION, SOURCE_DATE_EPOCH, DIST (the folder for its files) and VENV (the environment of this
process)."""

EXTRAS: Final = ("service", "spark", "java", "notify", "canary", "mcp", "otlp", "postgresql")
"""The extras that a user may install; the SBOM has the packages of all of them."""

CHECKSUMS: Final = "SHA256SUMS"


def write_sbom(tree: Path, scratch: Path, out: Path, version: str) -> None:
    """Writes the SBOM (CycloneDX): name, version and hashes of every package that requirements.lock pins for txnscope
    with all EXTRAS."""
    needed = scratch / "requirements.txt"
    needed.write_text(role(tree, EXTRAS), "utf-8")
    cyclonedx = str(Path(sys.executable).with_name("cyclonedx-py"))
    words = ("--pyproject", str(tree / "pyproject.toml"), "--output-reproducible", "--no-validate")
    file = out / f"txnscope-{version}.cdx.json"
    run((cyclonedx, "requirements", *words, "--output-file", str(file), str(needed)), tree)


def add(tree: Path, out: Path, version: str, revision: str, epoch: str, target: str) -> None:
    """Runs a target of ADDED."""
    variables = {"VERSION": version, "REVISION": revision, "SOURCE_DATE_EPOCH": epoch, "DIST": str(out)}
    run(("make", target, f"VENV={sys.prefix}"), tree, variables)


def write_checksums(out: Path) -> None:
    """Writes SHA256SUMS: the checksums of all other files in the folder, in the format that sha256sum reads."""
    lines = [f"{digest}  {name}\n" for name, digest in digests(out).items() if name != CHECKSUMS]
    (out / CHECKSUMS).write_text("".join(lines), "utf-8")


def write_tar(path: Path, files: Iterable[tuple[str, bytes]]) -> Path:
    """Writes the files (name, content) in this order to a compressed archive at `path`, without times, owners or modes
    of this machine. Creates missing folders of `path`. Returns `path`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return path
