"""Access of media kernels to a flow: components on its route, rate limits and work left.

``s`` are the tables of flows, which all media share. ``f`` is the row of a flow. ``u`` is the row
of one of its uses: a component and the weight with which the flow uses it.
"""

from __future__ import annotations

import numpy as np

from ..engine_api.interface import ONE
from ..kernel.jit import Int, jit_without_refcounts
from .max_min import table_layout as lay
from .max_min.int128 import div, mul, sub
from .max_min.table_layout import State
from .max_min.work_clock import completion_tick

__all__ = ["completion_tick", "component", "rate_alone", "remaining_work", "uses", "work"]


@jit_without_refcounts
def uses(s: State, f: Int) -> tuple[Int, Int]:
    """Range of a flow's uses, as first row and end row, in the order that its backend gave."""
    return s[1][f, lay.START], s[1][f, lay.START] + s[1][f, lay.COUNT]


@jit_without_refcounts
def component(s: State, u: Int) -> Int:
    """Component index of a use."""
    return s[2][u, lay.COMPONENT]


@jit_without_refcounts
def work(s: State, f: Int) -> tuple[Int, Int]:
    """Work left of a flow of a plugged-in medium, in rate units x ticks, as two words."""
    return s[1][f, lay.TAG_HI], s[1][f, lay.TAG_LO]


@jit_without_refcounts
def rate_alone(s: State, f: Int, u: Int, rate: Int) -> Int:
    """Rate of a flow if it has a component with the given rate to itself."""
    hi, lo = mul(rate, np.int64(ONE))
    return min(div(hi, lo, s[2][u, lay.WEIGHT]), s[1][f, lay.LIMIT])


@jit_without_refcounts
def remaining_work(hi: Int, lo: Int, rate: Int, ticks: Int) -> tuple[Int, Int]:
    """Work left after running for some ticks at a rate."""
    return sub(hi, lo, *mul(rate, ticks))
