"""Sentences on op times that were interpolated on a grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def grid_sentences(grids: Mapping[str, Any]) -> list[str]:
    """Sentence on the size and the error of each grid.

    >>> one = {"axes": {"tokens": 64, "context": 8}, "median": 0.0002, "most": 0.0131}
    >>> grid_sentences({"step": one})
    ['Op times of step are interpolated on a grid of 64 tokens x 8 context: between its points the \
error is 0.02 % (median), at most 1.31 %.']
    >>> grid_sentences({"step": one | {"median": None, "most": None}})
    ['Op times of step are requested on a grid of 64 tokens x 8 context.']
    """
    return [_sentence(name, grid) for name, grid in grids.items()]


def _sentence(name: str, grid: Mapping[str, Any]) -> str:
    sizes = " x ".join(f"{count:,} {axis}" for axis, count in grid["axes"].items())
    if grid["median"] is None:
        return f"Op times of {name} are requested on a grid of {sizes}."
    return (
        f"Op times of {name} are interpolated on a grid of {sizes}: between its points the error "
        f"is {100 * grid['median']:.2f} % (median), at most {100 * grid['most']:.2f} %."
    )
