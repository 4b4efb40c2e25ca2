"""docs/metrics.md is what the service serves."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.metrics.catalogue import OF_CLUSTERS
from tests.helpers.metrics_document import DOCUMENT, OURS, document, page
from tests.helpers.waiting import ANSWER_S

PROMTOOL = shutil.which("promtool")


def test_the_document_is_as_the_catalogue_says() -> None:
    assert DOCUMENT.read_text("utf-8") == document(), "make it anew: python -m tests.helpers.metrics_document"


def test_it_shows_a_series_of_every_metric_as_prometheus_reads_it() -> None:
    text = "".join(re.findall(r"^```\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    shown = {family.name: family for family in text_string_to_metric_families(text)}
    for metric in (*OF_CLUSTERS, *OURS):
        family = shown.pop(metric.name.removesuffix("_total"))
        assert family.documentation == metric.help
        assert family.samples, metric.name
        labels = set(family.samples[0].labels) - {"le"}
        assert labels == {*metric.labels, *(("cluster",) if metric in OF_CLUSTERS else ())}, metric.name
    assert not shown


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say_about_the_page() -> None:
    command = [str(PROMTOOL), "check", "metrics"]
    result = subprocess.run(command, input=page(), capture_output=True, text=True, timeout=ANSWER_S, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
