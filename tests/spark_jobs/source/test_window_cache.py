"""Windows that workers keep for one another."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.source.window import Key, Window, WindowCache
from tests.spark_jobs.source.test_windows import data


def window(offset: int, producer_id: int = 1) -> Window:
    found = Window(offset)
    found.extend(data(offset, producer_id))
    return found


def test_another_worker_finds_what_one_has_read_and_reads_on(tmp_path: Path) -> None:
    path = str(tmp_path / "windows.db")
    key, read = Key("id", 0, 10), window(10)
    WindowCache(path).keep({key: read, Key("id", 1, 10): Window(10, is_broken=True)})
    found = WindowCache(path).find([key, Key("id", 1, 10), Key("other", 0, 10)])
    assert found == {key: read, Key("id", 1, 10): Window(10, is_broken=True)}
    for one in (read, found[key]):
        one.extend(data(11, 2))
    assert found[key] == read
    assert [one.producer_id for one in found[key].entries(is_whole=True)] == [1, 2]


def test_the_newest_lso_of_the_last_partitions_is_kept(tmp_path: Path) -> None:
    kept = WindowCache(str(tmp_path / "windows.db"), max_windows=3)
    first, second = Key("id", 0, 10), Key("id", 0, 20)
    kept.keep({first: window(10)})
    kept.keep({second: window(20)})
    assert list(kept.find([first, second])) == [second]
    more = [Key("id", partition, 10) for partition in range(1, 4)]
    kept.keep({key: window(10) for key in more})
    assert list(kept.find([second, *more])) == more
