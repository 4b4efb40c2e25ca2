"""Tests the software bill of materials (SBOM) of an image, with this environment in place of an image."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.compose.sbom import document, jars

STATUS = """Package: base-files
Status: install ok installed
Version: 13.8
Architecture: amd64
Maintainer: nobody
Description: files
"""


def test_the_document_has_the_schema_and_every_kind_of_component(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(STATUS)
    found = document(Path(sys.prefix), "txnscope-job", "0.1.0", tmp_path)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(found)) is None
    purls = {component["purl"] for component in found["components"]}
    assert "pkg:deb/debian/base-files@13.8?arch=amd64" in purls
    for kind in (
        "pkg:pypi/sqlalchemy@",
        "pkg:generic/openjdk@",
        "pkg:generic/cpython@",
        "pkg:maven/com.google.guava/guava@",
    ):
        assert any(purl.startswith(kind) for purl in purls), kind


def test_a_jar_is_known_by_its_own_coordinates_or_by_its_name(tmp_path: Path) -> None:
    """A shaded jar also contains the coordinates of its inner libraries."""
    with zipfile.ZipFile(tmp_path / "outer-1.2.jar", "w") as jar:
        for artifact in ("inner", "outer"):
            text = f"#made\ngroupId=org.{artifact}\nartifactId={artifact}\nversion=9\n"
            jar.writestr(f"META-INF/maven/org.{artifact}/{artifact}/pom.properties", text)
    zipfile.ZipFile(tmp_path / "plain_2.13-4.3.0.jar", "w").close()
    assert [jar["purl"] for jar in jars(tmp_path)] == [
        "pkg:maven/org.outer/outer@1.2",
        "pkg:generic/plain_2.13@4.3.0",
    ]
