"""Tests what the images leave out: Spark starts and runs a query on the jars that are left, and libraries load without
their debug information."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from sqlalchemy.util import _immutabledict_cy as compiled

from deploy.compose import left_out
from deploy.compose.left_out import JARS, drop_debug_information, left_out_jars
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S

SPARK = Path(pyspark.__file__).parent

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
def test_spark_runs_a_query_like_ours_on_the_jars_that_are_left(tmp_path: Path) -> None:
    """No archive of classes is used, so every class comes from a jar, and is verified."""
    left = {path.name for path in (SPARK / "jars").glob("*.jar")}
    left -= left_out_jars(left)
    (tmp_path / "jars").mkdir()
    for name in left:
        (tmp_path / "jars" / name).symlink_to(SPARK / "jars" / name)
    (tmp_path / "bin").symlink_to(SPARK / "bin")
    environment = os.environ | {"SPARK_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", REHEARSAL], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ended.returncode == 0, ended.stderr
    assert "NoClassDefFoundError" not in ended.stderr
    assert f"{tmp_path}/jars" in ended.stdout
    assert str(SPARK / "jars") not in ended.stdout


@pytest.mark.parametrize("pattern", JARS)
def test_spark_has_each_jar_that_is_left_out(pattern: str) -> None:
    """A jar that Spark does not have any more, or under another name, would be kept in silence."""
    assert any(left_out.is_of(path.name, pattern) for path in (SPARK / "jars").glob("*.jar"))


def test_a_name_does_not_stand_for_longer_names() -> None:
    assert left_out_jars(["spark-hive_2.13-4.3.0.jar", "derby-10.1.jar"]) == {
        "spark-hive_2.13-4.3.0.jar",
        "derby-10.1.jar",
    }
    assert not left_out_jars(["spark-core_2.13-4.3.0.jar", "json4s-core_2.13-4.0.7.jar", "tinker-1.0.jar"])


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
