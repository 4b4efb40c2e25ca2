"""Tests that jars are not used if their checksums differ from the pinned ones."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from deploy.demo import jars

CONTENT = {"broker-9.9.jar": b"a broker", "tools-9.9.jar": b"tools"}


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Pins the jars of a version 9.9, and replaces the function that downloads jars. Each download takes a moment,
    writes CONTENT, and adds its directory to the returned list."""
    pins = tmp_path / "pins"
    pins.mkdir()
    pinned = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in CONTENT.items())
    (pins / "9.9.sha256").write_text("".join(pinned))
    done: list[Path] = []

    def download(_jars: jars.Jars, directory: Path) -> None:
        done.append(directory)
        threading.Event().wait(0.2)
        directory.mkdir()
        for name, content in CONTENT.items():
            (directory / name).write_bytes(content)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "PINS", pins)
    monkeypatch.setattr(jars, "_download", download)
    return done


def test_two_concurrent_fetches_download_the_pinned_jars_once(downloads: list[Path]) -> None:
    assert not jars.is_cached("9.9")
    both = [threading.Thread(target=jars.fetch, args=("9.9",)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert jars.is_cached("9.9")
    assert {jar.name for jar in jars.fetch("9.9").iterdir()} == CONTENT.keys()
    assert len(downloads) == 1


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("broker-9.9.jar", b"a br0ker", "has another checksum"),
        ("tools-9.9.jar", None, "is missing"),
        ("more-1.0.jar", b"", "is not pinned"),
    ],
)
def test_a_jar_that_is_not_as_pinned_is_named_in_one_line(
    downloads: list[Path], name: str, content: bytes | None, complaint: str
) -> None:
    directory = jars.fetch("9.9")
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)
    with pytest.raises(jars.JarsError) as e:
        jars.fetch("9.9")
    assert f"{name} {complaint}" in str(e.value)
    assert "\n" not in str(e.value)


def test_other_pins_use_another_folder_than_the_old_pins(downloads: list[Path]) -> None:
    before = jars.fetch("9.9")
    (before / "tools-9.9.jar").unlink()
    pins = jars.PINS / "9.9.sha256"
    pins.write_text("".join(reversed(pins.read_text().splitlines(keepends=True))))
    assert jars.fetch("9.9") != before


def test_the_error_of_an_unpinned_version_names_the_pinned_ones() -> None:
    with pytest.raises(jars.JarsError, match=r"Kafka 1\.0\.0 is not pinned here: choose one of 3\.3\.2, .*, 4\.4\.0"):
        jars.fetch("1.0.0")


def test_a_failed_download_is_reported_with_its_cause() -> None:
    said = jars._complaint("""
        module not found: org.apache.kafka#kafka_2.13;4.3.1
        Server access error at url (javax.net.ssl.SSLHandshakeException: unable to find valid certification path)
    """)
    assert "unable to find valid certification path" in said


def test_a_module_can_be_fetched_without_its_dependencies() -> None:
    both = jars._module([jars.Module("org.apache.kafka", "kafka-tools", "9.9"), jars.Module("g", "b", "1", alone=True)])
    assert 'name="kafka-tools" rev="9.9" conf="default->master,runtime"' in both
    assert 'name="b" rev="1" conf="default->master"' in both
