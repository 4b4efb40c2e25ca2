"""`/`: a page without script that says what this is and links everything."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from service.api.clusters import describe_cluster
from service.api.fields import text_of_time
from service.api.html import Html, html, join
from service.api.links import API, cluster_link, transaction_link
from service.api.problems import RETRY_AFTER_S
from service.api.store import Store, store_of
from service.domain import states
from service.store import read, read_transactions
from service.store.errors import StoreError
from service.store.select_transactions import Selection

OLDEST_SHOWN: Final = 5

router = APIRouter(include_in_schema=False)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>txnscope</title>
<link rel="icon" type="image/svg+xml" href="/assets/icon.svg">
<link rel="stylesheet" href="/assets/landing.css">
</head>
<body>
<header><h1>txnscope</h1><p>What every Kafka transaction is doing. Version {version}.</p></header>
<main>
{main}
<section>
<h2>Interfaces</h2>
<ul>
<li><a href="{api}/clusters">{api}/clusters</a>: all clusters as JSON</li>
<li><code>{api}/events</code>: findings as they open and resolve (server-sent events)</li>
<li><a href="/metrics">/metrics</a>: Prometheus metrics</li>
<li><a href="/openapi.json">/openapi.json</a>: the REST interface described</li>
<li><a href="/-/healthy">/-/healthy</a>, <a href="/-/ready">/-/ready</a>, <a href="/version">/version</a></li>
</ul>
</section>
</main>
</body>
</html>
"""

_CLUSTER = """<section>
<h2>Cluster {name}</h2>
<p>Kafka cluster id <code>{cluster_id}</code>, as of {as_of}. {progress}</p>
<table>
<thead><tr>{states}</tr></thead>
<tbody><tr>{counts}</tr></tbody>
</table>
<ul>
<li><a href="{link}">the cluster</a>: counts, rates, configs, sources</li>
<li><a href="{link}/transactions">all transactional ids</a>,
 <a href="{link}/transactions?state=Ongoing&amp;sort=age">those with an open transaction</a>,
 <a href="{link}/transactions?sort=last_updated">by last update</a></li>
<li><a href="{link}/findings?status=confirmed">findings</a>: what is wrong or about to be</li>
<li><a href="{link}/expiring?within=24h">ids that expire within a day</a></li>
<li><a href="{link}/coordinators">the coordinators</a></li>
</ul>
{oldest}
</section>
"""

_OLDEST = """<h3>Oldest open transactions</h3>
<table>
<thead><tr><th>transactional.id</th><th>state</th><th>started</th></tr></thead>
<tbody>{rows}</tbody>
</table>
"""


@router.get("/")
def get_landing(request: Request) -> Response:
    """200; 503, still with the links, while the store cannot be read."""
    version = request.app.version
    try:
        main, status, headers = _clusters(store_of(request)), 200, {}
    except StoreError as error:
        main = html('<section class="trouble"><h2>The store cannot be read</h2><p>{why}</p></section>', why=error)
        status, headers = 503, {"Retry-After": str(RETRY_AFTER_S)}
    page = html(_PAGE, version=version, api=API, main=main)
    headers = {"Cache-Control": "no-cache", **headers}
    return Response(page, status, headers, media_type="text/html")


def _clusters(store: Store) -> Html:
    with store.read() as connection:
        sections = []
        for cluster in read.all_clusters(connection):
            body, as_of_ms = describe_cluster(connection, cluster)
            page = read_transactions.read_page(
                connection, cluster.id, Selection(states.OPEN), "age", None, OLDEST_SHOWN
            )
            oldest = join(
                html(
                    '<tr><td><a href="{link}">{id}</a></td><td>{state}</td><td>{started}</td></tr>',
                    link=transaction_link(cluster.name, row.transactional_id),
                    id=row.display if len(row.display) <= 100 else f"{row.display[:100]}…",
                    state=states.NAMES[row.state],
                    started=text_of_time(row.started_at_ms) or "unknown",
                )
                for row in page.rows
            )
            sections.append(_cluster(body, as_of_ms, oldest))
    return join(sections) or Html(
        "<section><p>No cluster was read yet: <code>txnscope watch</code> begins.</p></section>"
    )


def _cluster(body: dict[str, Any], as_of_ms: int | None, oldest: Html) -> Html:
    return html(
        _CLUSTER,
        name=body["cluster"],
        cluster_id=body["cluster_id"],
        as_of=text_of_time(as_of_ms) or "never",
        progress=" ".join(map(_progress, body["sources"])),
        states=join(html("<th>{name}</th>", name=name) for name in body["states"]),
        counts=join(html("<td>{ids}</td>", ids=ids) for ids in body["states"].values()),
        link=cluster_link(body["cluster"]),
        oldest=html(_OLDEST, rows=oldest) if oldest else Html(""),
    )


def _progress(source: dict[str, Any]) -> str:
    if source["error"] is not None:
        return f"{source['source']}: {source['error']}."
    if source["lag"] is None:
        coverage = source["coverage"]
        return f"{source['source']}: {coverage['judged']:,} of {coverage['watched']:,} are judged."
    if source["caught_up"]:
        return f"{source['source']} is read to its end."
    return f"{source['source']}: {source['lag']:,} of {source['end']:,} records are still to be read."
