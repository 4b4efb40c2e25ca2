"""Writes docs/openapi.json, the service's own description: `python -m tests.helpers.openapi_document`."""

from __future__ import annotations

import json
import tomllib
from tempfile import TemporaryDirectory
from typing import Final

from service.app import create_app
from tests.helpers.paths import ROOT

DOCUMENT: Final = ROOT / "docs" / "openapi.json"


def main() -> None:
    DOCUMENT.write_text(document(), "utf-8")


def declared_version() -> str:
    """Returns the version in pyproject.toml. The installed package may have an older version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def document() -> str:
    """Returns the document. Paths are in the order of the routes, and schemas in the order of their names, so that a
    change of one route or schema is one place in a diff."""
    with TemporaryDirectory() as directory:  # a store needs an existing folder, but is not read here
        described = create_app(f"sqlite:///{directory}/store.db", declared_version()).openapi()
    described["components"]["schemas"] = dict(sorted(described["components"]["schemas"].items()))
    return json.dumps(described, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
