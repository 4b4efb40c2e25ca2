"""The classes that Spark's JVM loads, archived (JEP 350) for every later start: loading them is half of its CPU there.

`spark_jobs.rehearsal` makes the archive (docs/adr/0011). A JVM that it does not fit, of another build or over other
jars, ignores it.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pyspark

from spark_jobs.java import Java


def archive(java: Java) -> Path:
    """Where the archive for this Java and this environment lies, if it was made; it goes with the environment."""
    which = hashlib.sha256(bytes(java.home)).hexdigest()[:8]
    return Path(sys.prefix) / "share" / "txnscope" / f"spark-{pyspark.__version__}-java-{which}.jsa"


def sharing(java: Java) -> list[str]:
    """Java's options that use the archive: none where there is none. Java is not to print what it thinks of it."""
    found = archive(java)
    return [f'-XX:SharedArchiveFile="{found}"', "-Xshare:auto", "-Xlog:disable"] if found.exists() else []


def archiving(into: Path) -> list[str]:
    """Java's options that write what was loaded `into` a file when the JVM ends."""
    return [f'-XX:ArchiveClassesAtExit="{into}"', "-Xlog:disable"]
