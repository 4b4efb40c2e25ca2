"""The small form of the offset ruler for a partition whose LSO stands."""

from __future__ import annotations

from service.web.charts.ruler import Mini, mini
from service.web.partitions.blocking_chain import Link


def mini_of(link: Link) -> Mini | None:
    """Drawn by the macro `mini` of ruler.html; None where nothing is hidden."""
    return mini(link.log_start, link.last_stable_offset, link.high_watermark, link.relation)
