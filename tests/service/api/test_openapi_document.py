"""docs/openapi.json is what the service answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.cli.version import version
from tests.helpers.openapi_document import DOCUMENT, document
from tests.helpers.stores import SeededCluster, client_of


def test_the_document_is_as_the_routes_say() -> None:
    assert DOCUMENT.read_text("utf-8") == document(), "make it anew: python -m tests.helpers.openapi_document"


def test_the_service_answers_it(tmp_path: Path) -> None:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    with client_of(cluster.url) as client:
        served = client.get("/openapi.json").json()
    cluster.close()
    served["info"]["version"] = version()
    assert served == json.loads(DOCUMENT.read_text("utf-8"))


def test_what_may_be_left_out_cannot_be_null() -> None:
    """Of a parameter, `null` would be a word of four letters."""
    paths = json.loads(DOCUMENT.read_text("utf-8"))["paths"].values()
    parameters = [one for path in paths for operation in path.values() for one in operation.get("parameters", ())]
    assert {one["name"] for one in parameters if not one.get("required")} > {"min_age", "lagging", "last-event-id"}
    assert not [one for one in parameters if "null" in str(one["schema"])]


@pytest.mark.parametrize("path", ["partitions?lagging", "groups?blocked"])
def test_truths_are_true_and_false_as_the_document_says(tmp_path: Path, path: str) -> None:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    with client_of(cluster.url) as client:
        answers = {
            text: client.get(f"/api/v1/clusters/orders/{path}={text}") for text in ("true", "false", "yes", "1", "")
        }
    cluster.close()
    assert {text: answer.status_code for text, answer in answers.items()} == {
        "true": 200,
        "false": 200,
        "yes": 422,
        "1": 422,
        "": 422,
    }
    (error,) = answers["yes"].json()["errors"]
    assert error["message"].endswith("neither true nor false")
