"""The small form of the offset ruler for a partition whose LSO stands."""

from __future__ import annotations

from service.web.chain import Link
from service.web.ruler import Mini, mini


def mini_of(link: Link) -> Mini | None:
    """Drawn by the macro `mini` of ruler.html; None where nothing is hidden."""
    return mini(link.log_start, link.last_stable_offset, link.high_watermark, link.relation)
