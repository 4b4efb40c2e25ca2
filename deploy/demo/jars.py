"""The broker's jars: from Maven Central by coordinates, through the Ivy that ships inside PySpark; cached and pinned.

Every jar's SHA-256 is in `pins/<version>.sha256`; what does not match is not used. To pin another version, fetch it
with `python -m deploy.demo.jars --pin VERSION` and commit the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from spark_jobs.java import find_java

PINS = Path(__file__).parent / "pins"
# Kafka 4 logs nowhere with what it depends on: its logging library comes with its distribution only
LOGGING = ("org.slf4j", "slf4j-reload4j", "1.7.36")
# the machine's own trust, where it keeps one for Java: knows a company's authority that the packaged Java does not
TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))
# `m2compatible` is Maven Central's layout; Ivy knows its address
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


class JarsError(Exception):
    """The jars cannot be had, or are not the ones that were pinned; one line for people."""


def versions() -> list[str]:
    return sorted(pin.stem for pin in PINS.glob("*.sha256"))


def fetch(version: str) -> Path:
    """A directory with exactly the pinned jars of that Kafka version; downloaded once. Raises JarsError."""
    if version not in versions():
        raise JarsError(f"Kafka {version} is not pinned here: choose one of {', '.join(versions())}")
    with _locked() as cache:
        directory = cache / _name(version)
        if not directory.is_dir():
            _download(version, directory)
        _verify(directory, _read_pins(version))
        return directory


def is_cached(version: str) -> bool:
    return (_cache() / _name(version)).is_dir()


def _name(version: str) -> str:
    """Other pins, another directory: whoever still runs on the old ones keeps them."""
    return f"kafka-{version}-{hashlib.sha256((PINS / f'{version}.sha256').read_bytes()).hexdigest()[:8]}"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "txnscope"


@contextmanager
def _locked() -> Iterator[Path]:
    """Two processes may want the same jars at once: the second waits and finds them."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _cache()


def _download(version: str, directory: Path) -> None:
    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    with tempfile.TemporaryDirectory(prefix="jars-", dir=directory.parent) as scratch:
        work = Path(scratch)
        (work / "settings.xml").write_text(IVY_SETTINGS.format(cache=work / "ivy"))
        (work / "ivy.xml").write_text(_module(version))
        trust = [f"-Djavax.net.ssl.trustStore={store}" for store in TRUST_STORES if store.is_file()][:1]
        command = [find_java(os.environ).command, *trust, "-cp", str(ivy), "org.apache.ivy.Main"]
        command += ["-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml"), "-confs", "default"]
        command += ["-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")]
        command += ["-types", "jar", "bundle"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not list((work / "jars").glob("*.jar")):
            raise JarsError(f"Kafka {version} could not be downloaded: {_complaint(done.stdout + done.stderr)}")
        (work / "jars").rename(directory)


def _complaint(output: str) -> str:
    """The line of Ivy's that tells most: what an exception says, not that in the end nothing was found."""
    lines = [line.strip() for line in output.splitlines()]
    telling = (next((line for line in lines if word in line), None) for word in ("Exception", "not found"))
    return next((line[:300] for line in telling if line), "no answer")


def _module(version: str) -> str:
    kafka = [("org.apache.kafka", name, version) for name in ("kafka_2.13", "kafka-tools")]
    wanted = "".join(
        f'<dependency org="{org}" name="{name}" rev="{revision}" conf="default->master,runtime"/>'
        for org, name, revision in (*kafka, LOGGING)
    )
    return (
        '<ivy-module version="2.0"><info organisation="txnscope" module="broker"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def _read_pins(version: str) -> dict[str, str]:
    lines = (PINS / f"{version}.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def _verify(directory: Path, pins: dict[str, str]) -> None:
    """Hashing 100 MB takes 0.1 s: less than starting anything these jars are for."""
    found = _digests(directory)
    for name in sorted(pins.keys() | found.keys()):
        if found.get(name) != pins.get(name):
            what = (
                "is missing" if name not in found else "is not pinned" if name not in pins else "has another checksum"
            )
            raise JarsError(f"{directory / name} {what}: delete {directory} to download it again")


def _digests(directory: Path) -> dict[str, str]:
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(directory.glob("*.jar"))}


def pin(version: str) -> None:
    """Download a version and write down what came."""
    with _locked() as cache, tempfile.TemporaryDirectory(prefix="pin-", dir=cache) as scratch:
        _download(version, Path(scratch) / "jars")
        lines = [f"{digest}  {name}\n" for name, digest in _digests(Path(scratch) / "jars").items()]
        PINS.mkdir(exist_ok=True)
        (PINS / f"{version}.sha256").write_text("".join(lines))
        shutil.rmtree(cache / _name(version), ignore_errors=True)
        (Path(scratch) / "jars").rename(cache / _name(version))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "--pin":
        sys.exit("usage: python -m deploy.demo.jars --pin VERSION")
    pin(sys.argv[2])
