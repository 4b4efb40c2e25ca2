"""Tests that `make docs` builds the site, that the site needs no other host, and that a broken link fails the build."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urldefrag, urlsplit

import pytest
from playwright.sync_api import sync_playwright

from service.web.guide import guide_names
from service.web.guide_navigation import DOCS, sections
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S
from tests.service.web.browser import CHROMIUM, WAIT_MS

pytestmark = pytest.mark.in_turns("file")

pytest.importorskip("furo", reason="the generator of the site is not installed (make venv)")

BROKEN: Final = """
[a page that does not exist](nothing.md), [a heading that does not exist](glossary.md#no-such-heading),
[a file outside of docs that does not exist](../NOTHING.md)
"""


def built(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Builds the site into `out`, with the command of `make docs`."""
    command = [sys.executable, "-m", "deploy.site", "--out", str(out), *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    done = built(out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(out / "site" / "index.html"), str(out / "man" / "txnscope.1")]
    return out / "site"


def address(name: str) -> str:
    return f"{name.removesuffix('.md')}.html"


def test_each_page_of_docs_is_in_the_site_and_in_its_navigation(site: Path) -> None:
    start = (site / "index.html").read_text("utf-8")
    for name in guide_names():
        assert (site / address(name)).is_file()
    for section in sections():
        assert f'<span class="caption-text">{section.title}</span>' in start
        for name in (name for entry in section.entries for name in entry.names):
            assert f'<a class="reference internal" href="{address(name)}">' in start


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*?\bsrc="([^"]+)|<link\b[^>]*?\bhref="([^"]+)|url\(([^)]+)"""
    )
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        for found in loaded.findall(file.read_text("utf-8")):
            where = next(filter(None, found)).strip("\"'")
            assert urlsplit(where).scheme in ("", "data"), f"{file.relative_to(site)}: {where}"
            assert not where.startswith("//")


def test_a_link_out_of_docs_is_text_and_one_to_a_heading_leads_there(site: Path) -> None:
    stability = (site / "stability.html").read_text("utf-8")
    assert "SECURITY.md" in stability
    assert not re.search(r'href="[^"]*SECURITY', stability)
    runbook = (site / "runbooks" / "KafkaTransactionHanging.html").read_text("utf-8")
    page, fragment = urldefrag(re.findall(r'href="(\.\./hanging\.html#[^"]+)"', runbook)[0])
    assert f'id="{fragment}"' in (site / "runbooks" / page).read_text("utf-8")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_search_works_from_files_without_any_server(site: Path, width: int, dark: bool) -> None:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", offline=True
        )
        complaints, asked_for = list[str](), list[str]()
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: asked_for.append(asked.url))
        page.goto((site / "search.html").as_uri() + "?q=fencing+storm")
        page.get_by_role("link", name="KafkaTransactionFencingStorm", exact=True).last.wait_for(timeout=WAIT_MS)
        page.goto((site / "running.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.close()
    assert complaints == []
    assert {urlsplit(url).scheme for url in asked_for} == {"file"}


def test_what_is_broken_fails_the_build_and_is_named(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(DOCS.resolve(), docs)
    with (docs / "sizing.md").open("a", encoding="utf-8") as page:
        page.write(BROKEN)
    (docs / "forgotten.md").write_text("# A page that the list does not have\n", "utf-8")
    done = built(tmp_path / "out", "--docs", str(docs))
    assert done.returncode != 0
    for broken in ("nothing.md", "no-such-heading", "NOTHING"):
        assert re.search(rf"sizing\.md:\d+: WARNING: .*{broken}", done.stderr), broken
    assert re.search(r"forgotten\.md: WARNING: .*toctree", done.stderr)
