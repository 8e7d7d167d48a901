"""``placement``: what is kept where, and which rank runs on which GPU."""

from __future__ import annotations

from typing import Literal

from ..schema import Many, Section, register


class PlacementSection(Section):
    """Memory that state is kept in, and the component of each rank."""

    optimizer_state: Literal["hbm"] = "hbm"
    """Memory that holds the optimizer state; only GPU memory (``hbm``) for now."""
    ranks: Many[str] | None = None
    """Component of each rank, such as ``node0.gpu0``, or globs whose GPUs are assigned to ranks in
    order (``node2.gpu*``; ``node*.gpu0`` is the first GPU of every machine). By default rank r
    runs on the r-th GPU."""


register("placement", PlacementSection, PlacementSection())
