"""``placement``: the component of each rank, and the memory of the optimizer state."""

from __future__ import annotations

from typing import Literal

from ..schema import Many, Section, register


class PlacementSection(Section):
    """Component of each rank, and memory of the optimizer state."""

    optimizer_state: Literal["hbm"] = "hbm"
    """Memory that holds the optimizer state; only GPU memory (``hbm``) for now."""
    ranks: Many[str] | None = None
    """Component of each rank, such as ``node0.gpu0``, or globs whose GPUs are assigned to ranks in
    order (``node2.gpu*``; ``node*.gpu0`` is the first GPU of every machine). By default rank r
    runs on the r-th GPU."""


register("placement", PlacementSection, PlacementSection())
