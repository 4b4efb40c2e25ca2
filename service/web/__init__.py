"""The web pages. The server renders the pages from the same store queries as REST. The pages are complete without
JavaScript."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from service.web import goto, guide, llms
from service.web.cluster import applications, audit, notifications, overview, pipeline
from service.web.findings import finding_list, forms
from service.web.partitions import partition_list, partition_page
from service.web.transactions import expiring, transaction_list, transaction_page

ROOMS: Final = (
    overview,
    goto,
    finding_list,
    forms,
    partition_list,
    partition_page,
    expiring,
    pipeline,
    applications,
    audit,
    notifications,
    transaction_list,
    transaction_page,
    guide,
    llms,
)
"""The modules that serve the pages; each has a `router`."""

STATIC: Final = Path(__file__).parent / "static"
