"""The classes that a JVM loads, archived (JEP 350) for every later start: loading them is half of its CPU there.

A JVM that an archive does not fit, of another build or over other jars, ignores it.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pyspark

from spark_jobs.runtime.java import Java


def archive(java: Java) -> Path:
    """Where the archive of Spark for this Java and this environment lies, if `spark_jobs.runtime.rehearsal` made it
    (docs/adr/0011); it goes with the environment."""
    return Path(sys.prefix) / "share" / "txnscope" / name(f"spark-{pyspark.__version__}", java)


def name(title: str, java: Java) -> str:
    """Of an archive: another Java, another file."""
    return f"{title}-java-{hashlib.sha256(bytes(java.home)).hexdigest()[:8]}.jsa"


def sharing(found: Path) -> list[str]:
    """Java's options that use an archive. Java is not to print what it thinks of it."""
    return [f"-XX:SharedArchiveFile={found}", "-Xshare:auto", "-Xlog:disable"]


def archiving(into: Path) -> list[str]:
    """Java's options that write what was loaded `into` a file when the JVM ends."""
    return [f"-XX:ArchiveClassesAtExit={into}", "-Xlog:disable"]
