"""``placement``: what is kept where, and which rank runs on which GPU."""

from __future__ import annotations

from typing import Literal

from ..schema import Many, Section, register


class PlacementSection(Section):
    """Memory that state is kept in, and the component of each rank."""

    optimizer_state: Literal["hbm"] = "hbm"
    """Memory that holds the optimizer's state: that of the GPU."""
    ranks: Many[str] | None = None
    """Component of each rank, ``node0.gpu0`` …, or globs, whose GPUs ranks get in the machine's
    order (``node2.gpu*``; ``node*.gpu0`` is the first of every machine); rank r on the r-th GPU
    unless said."""


register("placement", PlacementSection, PlacementSection())
