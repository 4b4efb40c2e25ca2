"""Tests that hyperlinks lead to pages with stable addresses, or to existing dashboards, with the variables that those
dashboards need."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote

from service.domain.application_rules import Assigned
from service.store.writers.applications import ApplicationWriter
from tests.dashboards.boards import FILES, Json, links, load, panels
from tests.helpers.partitions import WithPartitions, hanging_finding, stalled_partition
from tests.helpers.stores import NOW_MS, client_of, open_id

SITE = "${txnscope:raw}"
PAGES = (
    r"/",
    r"/notifications",
    r"/clusters/C",
    r"/clusters/C/findings/F",
    r"/clusters/C/transaction\?id=I",
    r"/clusters/C/transactions(\?(state=\w+(&state=\w+)*|sort=age|q=I))?",
    r"/clusters/C/partitions(/T/P)?",
    r"/clusters/C/applications/A",
    r"/clusters/C/expiring(\?within=24h)?",
    r"/clusters/C/groups",
    r"/clusters/C/pipeline",
)
STANDS_FOR = {"cluster": "C", "finding": "F", "transactional_id": "I", "topic": "T", "partition": "P"}
STANDS_FOR["application"] = "A"
_VALUE = re.compile(r"\$\{(?:__data\.fields\.|__field\.labels\.)?(\w+):percentencode}")


def filled(url: str, values: dict[str, str]) -> str:
    """Returns the URL as Grafana fills it in, with each value percent-encoded."""
    return _VALUE.sub(lambda match: quote(values[match[1]], safe=""), url)


def test_every_link_leads_to_a_stable_page_address_or_a_dashboard(board: Json) -> None:
    uids = {load(file)["uid"] for file in FILES}
    variables = {load(file)["uid"]: {one["name"] for one in load(file)["templating"]["list"]} for file in FILES}
    found = links(board)
    assert len(found) > 5
    for where, url in found:
        if url.startswith(SITE):
            path = filled(url.removeprefix(SITE), STANDS_FOR)
            assert any(re.fullmatch(page, path) for page in PAGES), f"{where}: {path}"
        else:
            match = re.fullmatch(r"/d/([a-z-]+)\?(.*)", url)
            assert match, f"{where}: {url}"
            assert match[1] in uids
            assert set(re.findall(r"var-(\w+)=", url)) <= variables[match[1]]
            for kept in ("${datasource:queryparam}", "${txnscope:queryparam}", "${__url_time_range}"):
                assert kept in url, f"{where}: {url}"


def test_a_link_uses_only_fields_of_its_series_or_row(board: Json) -> None:
    for panel in panels(board):
        reported = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", panel["targets"][0]["expr"]))))
        for _, url in links(board | {"links": [], "panels": [panel]}):
            of_row, of_series = (
                set(re.findall(rf"\${{__{kind}\.(\w+)", url)) for kind in ("data.fields", "field.labels")
            )
            assert not (of_series if panel["type"] == "table" else of_row), panel["title"]
            assert of_row | of_series <= reported, f"{panel['title']}: {url}"


def test_every_panel_about_a_cluster_links_to_its_page(board: Json) -> None:
    """Three kinds of panels are exempt: heatmaps, which sum over clusters; panels about shares and times of all
    transactions; and panels about the OpenTelemetry endpoint, which has no page. The test limits only the number of
    panels without a link."""
    without = {panel["title"] for panel in panels(board) if not links({"links": [], "panels": [panel]})}
    assert len(without) <= (9 if board["uid"] == "txnscope-pipeline" else 4), without


def test_the_service_has_a_page_at_every_linked_address(board: Json, tmp_path: Path) -> None:
    """Names with special characters arrive unchanged."""
    name, topic = "pay/ment & co?#%", "orders"
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.read([open_id(name, 30_000, topic)])
    ApplicationWriter(cluster.engine, cluster.lease).assign({name.encode(): Assigned(name)}, NOW_MS)
    cluster.look(stalled_partition())
    cluster.see(hanging_finding(name=name.encode()))
    with client_of(cluster.url) as client:
        (finding,) = client.get("/api/v1/clusters/orders/hanging").json()["items"]
        values = {"cluster": "orders", "finding": finding["id"], "transactional_id": name} | {
            "topic": topic,
            "partition": "0",
            "application": name,
        }
        for _, url in {*links(board)}:
            if url.startswith(SITE):
                path = filled(url.removeprefix(SITE), values)
                answer = client.get(path, headers={"Accept": "text/html"})
                assert answer.status_code == 200, f"{unquote(path)}: {answer.status_code}"
    cluster.close()
