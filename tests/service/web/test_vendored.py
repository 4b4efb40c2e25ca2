"""Tests that the shipped files of other projects have a known version, licence and checksum."""

from __future__ import annotations

import re
import tomllib
from hashlib import sha256

from service import web

VENDOR = web.STATIC / "vendor"
MANIFEST = VENDOR / "vendored.toml"


def test_every_vendored_file_is_the_one_of_the_manifest() -> None:
    packages = tomllib.loads(MANIFEST.read_text("utf-8"))["package"]
    named = {name: digest for package in packages for name, digest in package["sha256"].items()}
    there = {file.name: sha256(file.read_bytes()).hexdigest() for file in VENDOR.iterdir() if file != MANIFEST}
    assert there == named


def test_every_package_has_a_version_and_its_licence() -> None:
    for package in tomllib.loads(MANIFEST.read_text("utf-8"))["package"]:
        assert re.fullmatch(r"pkg:npm/[a-z.]+@\d+\.\d+\.\d+", package["purl"])
        assert package["license"] in ("0BSD", "MIT")
        assert package["license_file"] in package["sha256"]
        assert "Copyright" in (VENDOR / package["license_file"]).read_text("utf-8") or package["license"] == "0BSD"
