"""Tests of the settings of Spark. The user's settings override those of the Spark installation, and the installation's
settings override txnscope's. Also tests Spark's scratch folder, and the archive of classes that is unpacked into it."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.runtime.direct_batches import scratch_folder
from spark_jobs.runtime.java import Java, archived_classes, compressed_classes
from spark_jobs.runtime.session import Master, _settings, _sharing

OPTIONS = "spark.driver.extraJavaOptions"
JAVA = Java(Path("/java"), 21, "JAVA_HOME")
CLUSTER = Master("spark://m:7077", (("spark.driver.memory", "2g"),))


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    file = tmp_path / "spark-defaults.conf"
    file.write_text(
        f"# of the cluster\nspark.master yarn\nspark.driver.memory   1g\nspark.ui.enabled=true\n{OPTIONS} -Dtheirs=1\n"
    )
    return file


def test_settings_of_the_command_win_then_the_installation_then_ours(installation: Path) -> None:
    settings = _settings(Path("/scratch"), CLUSTER, ())
    assert settings["spark.driver.memory"] == "2g"
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.scheduler.mode"] == "FAIR"
    assert "spark.master" not in settings


def test_options_of_the_jvm_are_added_to_ours(installation: Path) -> None:
    assert "-Djava.io.tmpdir" in _settings(Path("/scratch"), CLUSTER, ())[OPTIONS]
    assert _settings(Path("/scratch"), CLUSTER, ())[OPTIONS].endswith(" -Dtheirs=1")


def test_a_cluster_keeps_its_own_timeouts_and_its_executors_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    here, there = (_settings(Path("/scratch"), master, ()) for master in (Master(), CLUSTER))
    assert "spark.network.timeout" in here
    assert "spark.network.timeout" not in there
    assert there["spark.python.unix.domain.socket.enabled"] == "false"
    assert here["spark.python.unix.domain.socket.enabled"] == "true"
    assert here["spark.local.dir"] == "/scratch"
    assert "spark.local.dir" not in there


@pytest.mark.parametrize(("letter", "fits"), [("a", "true"), ("é", "false")])
def test_python_is_reached_by_unix_sockets_if_their_paths_fit(letter: str, fits: str) -> None:
    """Linux limits the bytes of a socket's path, not its characters."""
    settings = _settings(Path("/" + letter * 40), Master(), ())
    assert settings["spark.python.unix.domain.socket.enabled"] == fits


def test_folders_of_dead_processes_are_removed_and_living_ones_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned = tmp_path / "txnscope-spark-dead"
    abandoned.mkdir()
    (abandoned / "lock").touch()
    (abandoned / "blocks").mkdir()
    foreign = tmp_path / "other"
    foreign.mkdir()
    with scratch_folder() as living:
        assert not abandoned.exists()
        with scratch_folder() as second:
            assert {*tmp_path.iterdir()} == {living, second, foreign}
    assert [*tmp_path.iterdir()] == [foreign]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a scratch folder. The Python environment has a folder for the archive of classes, but no archive."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    archived_classes(JAVA).parent.mkdir(parents=True)
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_a_compressed_archive_is_unpacked_into_the_scratch_folder(scratch: Path) -> None:
    content = bytes(range(256)) * 10_000
    compressed_classes(JAVA).write_bytes(pa.Codec("zstd").compress(content, asbytes=True))
    (unpacked,) = [option.partition("=")[2] for option in _sharing(JAVA, scratch) if "SharedArchiveFile" in option]
    assert Path(unpacked).parent == scratch
    assert Path(unpacked).read_bytes() == content


def test_an_archive_that_needs_no_unpacking_is_used_where_it_is(scratch: Path) -> None:
    archived_classes(JAVA).touch()
    assert f"-XX:SharedArchiveFile={archived_classes(JAVA)}" in _sharing(JAVA, scratch)


def test_spark_starts_without_an_archive_that_cannot_be_unpacked(
    scratch: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert _sharing(JAVA, scratch) == ()
    compressed_classes(JAVA).write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING):
        assert _sharing(JAVA, scratch) == ()
    assert "cannot be unpacked, so Spark starts more slowly" in caplog.text
    assert list(scratch.iterdir()) == []
