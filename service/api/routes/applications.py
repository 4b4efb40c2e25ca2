"""The applications of a cluster: pages of them by name, and one by its name."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path as PathParameter
from fastapi import Response

from service.api.http.answers import KeptRouter, answer, answer_page
from service.api.http.fields import text_of_time
from service.api.http.paging import LIMIT, Cursor, Limit, cut
from service.api.http.state import App, known_application
from service.api.schemas.applications import Application, Applications, OneApplication
from service.api.schemas.shape import shaped
from service.store.queries import clusters
from service.store.queries.applications import all_applications
from service.views.applications import see_now

router = KeptRouter("applications")


@router.read("/clusters/{cluster}/applications", "listApplications", Applications)
def list_applications(app: App, cluster: str, limit: Limit = LIMIT, cursor: Cursor = None) -> Response:
    """Lists applications by name. A rule of `[[applications]]` names the application of an id. If no rule matches, the
    application is derived from the id, provided that the framework that made the id is known. Other ids belong to no
    application.
    """
    with app.reading(cluster) as (connection, found):
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        rows = all_applications(connection, found.id)
        page, next_cursor = cut(
            rows, lambda application_row: (application_row.name,), limit, cursor, cluster, "applications"
        )
        items = [Application.of(application, found.name) for application in see_now(connection, found.id, page)]
    return answer_page(Applications, items, next_cursor, as_of_ms)


@router.read("/clusters/{cluster}/applications/{name:path}", "getApplication", OneApplication)
def get_application(app: App, cluster: str, name: Annotated[str, PathParameter(max_length=1_000)]) -> Response:
    """Returns one application. An application's name may contain slashes."""
    with app.reading(cluster) as (connection, found):
        row = known_application(connection, found, name)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        (application,) = see_now(connection, found.id, [row])
    body = shaped(OneApplication, Application.of(application, found.name), as_of=text_of_time(as_of_ms))
    return answer(body, as_of_ms)
