"""The temporary files of a killed process are deleted when the next one starts."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from spark_jobs.runtime.direct_batches import scratch_folder


def test_folders_of_the_dead_are_removed_and_those_of_the_living_stay(
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
