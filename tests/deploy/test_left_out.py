"""Tests what the images leave out. Spark must start and run a query with the remaining jars, and libraries must load
without their debug information."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from sqlalchemy.util import _immutabledict_cy as compiled

from deploy.compose import left_out
from deploy.compose.left_out import (
    INSIDE,
    JARS,
    NATIVE,
    drop_debug_information,
    is_of_another_system,
    left_out_jars,
    remove_packages,
    share_libraries,
)
from tests.helpers.paths import ROOT
from tests.helpers.spark_cluster import SPARK, spark_of_the_image
from tests.helpers.waiting import LIMIT_S

REHEARSAL = """
import pathlib, sys
from spark_jobs.runtime import rehearsal
from spark_jobs.runtime.direct_batches import scratch_folder
from spark_jobs.runtime.session import start_spark
with scratch_folder() as scratch:
    spark = start_spark(scratch, lambda jvm: None, java_options=())
    rehearsal._rehearse(spark, str(scratch / "checkpoint"))
    print("jars:", spark.sparkContext._jvm.java.lang.System.getProperty("java.class.path"))
    spark.stop()
"""


@pytest.mark.spark
@pytest.mark.in_turns
def test_spark_runs_a_query_like_ours_on_the_jars_that_are_left(tmp_path: Path) -> None:
    """No archive of classes is used, so every class comes from a jar, and is verified."""
    environment = os.environ | {"SPARK_HOME": str(spark_of_the_image(tmp_path)), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", REHEARSAL], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ended.returncode == 0, ended.stderr
    assert "NoClassDefFoundError" not in ended.stderr
    assert f"{tmp_path}/jars" in ended.stdout
    assert str(SPARK / "jars") not in ended.stdout


@pytest.mark.parametrize("pattern", [*JARS, *NATIVE, *INSIDE])
def test_spark_has_each_jar_that_is_left_out_or_changed(pattern: str) -> None:
    """If Spark drops or renames a jar, the pattern for this jar matches nothing, and the image keeps the renamed jar
    without an error."""
    assert any(left_out.is_of(path.name, pattern) for path in (SPARK / "jars").glob("*.jar"))


def test_a_name_does_not_stand_for_longer_names() -> None:
    assert left_out_jars(["spark-hive_2.13-4.3.0.jar", "derby-10.1.jar"]) == {
        "spark-hive_2.13-4.3.0.jar",
        "derby-10.1.jar",
    }
    assert not left_out_jars(["spark-core_2.13-4.3.0.jar", "json4s-core_2.13-4.0.7.jar", "tinker-1.0.jar"])


@pytest.mark.parametrize("project", INSIDE)
def test_each_part_that_is_left_out_of_a_jar_is_there(project: str) -> None:
    (jar,) = (path for path in (SPARK / "jars").glob("*.jar") if left_out.is_of(path.name, project))
    names = zipfile.ZipFile(jar).namelist()
    assert all(fnmatch.filter(names, pattern) for pattern in INSIDE[project])


def test_a_jar_keeps_the_library_of_this_machine_alone() -> None:
    entries = {
        "linux/amd64/libzstd-jni-1.5.so": "x86_64",
        "org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so": "x86_64",
        "net/jpountz/util/linux/aarch64/liblz4-java.so": "aarch64",
        "org/xerial/snappy/native/Linux/x86_64-musl/libsnappyjava.so": None,
        "darwin/aarch64/libzstd-jni-1.5.dylib": None,
        "win/amd64/libzstd-jni-1.5.dll": None,
    }
    for machine in ("x86_64", "aarch64"):
        kept = {entry for entry in entries if not is_of_another_system(entry, machine)}
        assert kept == {entry for entry, own in entries.items() if own == machine}
    assert not is_of_another_system("com/github/luben/zstd/Zstd.class")


def test_a_library_that_the_system_has_becomes_a_link(tmp_path: Path) -> None:
    system, own = tmp_path / "usr" / "lib" / "x86_64-linux-gnu", tmp_path / "libs"
    for folder in (system, own):
        folder.mkdir(parents=True)
    (system / "libssl.so.3").touch()
    for name in ("libssl-6a9b88ec.so.3", "libcrypto-3a0647ea.so.3", "libpq-e9b5c9ac.so.5.18"):
        (own / name).touch()
    share_libraries(own, tmp_path)
    assert {path.name for path in own.iterdir() if path.is_symlink()} == {"libssl-6a9b88ec.so.3"}
    assert (own / "libssl-6a9b88ec.so.3").resolve() == system / "libssl.so.3"


def test_a_package_that_is_removed_leaves_the_database(tmp_path: Path) -> None:
    database, programs = tmp_path / "var/lib/dpkg", tmp_path / "usr/bin"
    (database / "info").mkdir(parents=True)
    programs.mkdir(parents=True)
    for package, program in {"apt": "apt-get", "libudev1:amd64": "udev", "bash": "bash"}.items():
        (programs / program).touch()
        (database / "info" / f"{package}.list").write_text(f"/.\n/usr\n/usr/bin\n/usr/bin/{program}\n")
        (database / "info" / f"{package}.md5sums").touch()
    status = "Package: {}\nStatus: install ok installed\n"
    (database / "status").write_text("\n".join(status.format(name) for name in ("apt", "bash", "libudev1")))
    remove_packages(tmp_path)
    assert [path.name for path in programs.iterdir()] == ["bash"]
    assert sorted(path.name for path in (database / "info").iterdir()) == ["bash.list", "bash.md5sums"]
    assert (database / "status").read_text().split() == status.format("bash").split()


def test_a_library_without_debug_information_loads(tmp_path: Path) -> None:
    library = tmp_path / Path(compiled.__file__).name
    shutil.copy(compiled.__file__, library)
    drop_debug_information(library)
    assert library.stat().st_size < Path(compiled.__file__).stat().st_size / 2
    script = f"import ctypes; ctypes.PyDLL({str(library)!r}).PyInit__immutabledict_cy"
    assert subprocess.run([sys.executable, "-c", script], timeout=LIMIT_S, check=False).returncode == 0


def test_files_that_are_no_libraries_stay_as_they_are(tmp_path: Path) -> None:
    script = tmp_path / "linker.so"
    script.write_text("INPUT(libc.so.6)")
    drop_debug_information(script)
    assert script.read_text() == "INPUT(libc.so.6)"
