"""Downloads the broker's jars from Maven Central by their coordinates, through the Ivy that ships inside PySpark. The
jars are cached and pinned.

Every jar's SHA-256 is in `pins/<version>.sha256`; a jar that does not match is not used. To pin another version, run
`python -m deploy.demo.jars --pin VERSION` and commit the file it writes. Jars of other programs are fetched in the same
way (`Jars`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pyspark

from spark_jobs.runtime.java import find_java

PINS = Path(__file__).parent / "pins"
# the machine's own trust store for Java, if any: may contain a company's authority that the packaged Java lacks
TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))
# `m2compatible` is Maven Central's layout; Ivy knows its address
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


class JarsError(Exception):
    """The jars are not pinned, cannot be downloaded, or differ from the pinned ones. The message is one line for
    people."""


class Module(NamedTuple):
    """Coordinates of a jar in Maven Central. `alone`: True if the jar is fetched without its dependencies."""

    organisation: str
    name: str
    revision: str
    alone: bool = False


# Kafka 4 logs nothing with its Maven dependencies alone: the logging library is only in its distribution
LOGGING: Final = Module("org.slf4j", "slf4j-reload4j", "1.7.36")


class Jars(NamedTuple):
    """Jars that are used together. `title`: their name for people; `pins`: the file with the checksums of all of
    them."""

    title: str
    modules: tuple[Module, ...]
    pins: Path

    @property
    def directory(self) -> Path:
        """The directory in which the jars are cached. Its name depends on the pins, so that new pins do not remove the
        jars of a process that still runs."""
        checksum = hashlib.sha256(self.pins.read_bytes()).hexdigest()[:8]
        return _cache() / f"{self.title.lower().replace(' ', '-')}-{checksum}"


def versions() -> list[str]:
    return sorted(pin.stem for pin in PINS.glob("*.sha256"))


def fetch(version: str) -> Path:
    """Returns a directory with exactly the pinned jars of Kafka `version`. Downloads the jars if they are not cached.
    Raises JarsError, and JavaNotFound if there is no Java for the download."""
    if version not in versions():
        raise JarsError(f"Kafka {version} is not pinned here: choose one of {', '.join(versions())}")
    return fetch_pinned(_broker(version))


def fetch_pinned(jars: Jars) -> Path:
    """Returns a directory with exactly the pinned jars, as `fetch` does. Raises the same errors."""
    with _locked():
        if not jars.directory.is_dir():
            _download(jars, jars.directory)
        _verify(jars.directory, jars.pins)
        return jars.directory


def is_cached(version: str) -> bool:
    return version in versions() and _broker(version).directory.is_dir()


def _broker(version: str) -> Jars:
    modules = (*(Module("org.apache.kafka", name, version) for name in ("kafka_2.13", "kafka-tools")), LOGGING)
    return Jars(f"Kafka {version}", modules, PINS / f"{version}.sha256")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "txnscope"


@contextmanager
def _locked() -> Iterator[Path]:
    """Holds the lock of the cache, and yields the cache's folder. If two processes want the same jars at once, the
    second process waits and then finds the jars in the cache."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _cache()


def _download(jars: Jars, directory: Path) -> None:
    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    with tempfile.TemporaryDirectory(prefix="jars-", dir=directory.parent) as scratch:
        work = Path(scratch)
        (work / "settings.xml").write_text(IVY_SETTINGS.format(cache=work / "ivy"))
        (work / "ivy.xml").write_text(_module(jars.modules))
        trust = [f"-Djavax.net.ssl.trustStore={store}" for store in TRUST_STORES if store.is_file()][:1]
        command = [find_java(os.environ).command, *trust, "-cp", str(ivy), "org.apache.ivy.Main"]
        command += ["-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml"), "-confs", "default"]
        command += ["-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")]
        command += ["-types", "jar", "bundle"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not list((work / "jars").glob("*.jar")):
            raise JarsError(f"{jars.title} could not be downloaded: {_complaint(done.stdout + done.stderr)}")
        (work / "jars").rename(directory)


def _complaint(output: str) -> str:
    """Returns the most informative line of Ivy's output: the line of an exception, otherwise a line with "not found",
    otherwise "no answer"."""
    lines = [line.strip() for line in output.splitlines()]
    telling = (next((line for line in lines if word in line), None) for word in ("Exception", "not found"))
    return next((line[:300] for line in telling if line), "no answer")


def _module(modules: Iterable[Module]) -> str:
    wanted = "".join(
        f'<dependency org="{module.organisation}" name="{module.name}" rev="{module.revision}"'
        f' conf="default->{"master" if module.alone else "master,runtime"}"/>'
        for module in modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="txnscope" module="broker"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def _verify(directory: Path, pins_file: Path) -> None:
    """Raises JarsError unless `directory` has exactly the pinned jars. The check takes 0.1 s for 100 MB, less than the
    start of any program on these jars."""
    found = _digests(directory)
    pins = {name: digest for digest, name in (line.split() for line in pins_file.read_text().splitlines())}
    for name in sorted(pins.keys() | found.keys()):
        if found.get(name) != pins.get(name):
            what = (
                "is missing" if name not in found else "is not pinned" if name not in pins else "has another checksum"
            )
            raise JarsError(f"{directory / name} {what}: delete {directory} to download it again")


def _digests(directory: Path) -> dict[str, str]:
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(directory.glob("*.jar"))}


def pin(jars: Jars) -> None:
    """Downloads `jars` into the cache, and writes the checksums of the downloaded files to `jars.pins`. Raises
    JarsError, JavaNotFound."""
    with _locked() as cache, tempfile.TemporaryDirectory(prefix="pin-", dir=cache) as scratch:
        _download(jars, Path(scratch) / "jars")
        lines = [f"{digest}  {name}\n" for name, digest in _digests(Path(scratch) / "jars").items()]
        jars.pins.parent.mkdir(exist_ok=True)
        jars.pins.write_text("".join(lines))
        shutil.rmtree(jars.directory, ignore_errors=True)
        (Path(scratch) / "jars").rename(jars.directory)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "--pin":
        sys.exit("usage: python -m deploy.demo.jars --pin VERSION")
    pin(_broker(sys.argv[2]))
