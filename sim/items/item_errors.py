"""Errors of streams of items, from the status of an engine."""

from __future__ import annotations

import re
from typing import Any

from ..engine_api.item_setup import ItemNames
from ..errors import SimulationError
from ..facts.items import layout as lay

_OR = re.compile(r"\|: 'float'|bitwise_or")  # what Python and NumPy say of a fraction | 0


def item_error(status: int, engine: Any, names: ItemNames) -> SimulationError:
    """Error for a status; it names the stream and the wrong value."""
    wrong, pools = engine.wrong, [pool.name for pool in names.pools]
    kind, what = "items", ""
    if status == lay.BAD_POOL:
        what = f"sends an item to pool {wrong}, but pools has {len(pools)}, numbered from 0"
    elif status == lay.BAD_TIME:
        what = f"returns a service of {wrong} ticks; return 0 or more"
    elif status == lay.OVERFLOW:
        kind, what = "time overflow", f"a service of {wrong} ticks does not fit; use a coarser tick"
    elif status == lay.BAD_CLASS:
        what = f"gives an item class {wrong}, but classes has {len(names.classes)}, from 0"
    elif status == lay.BAD_COUNTER:
        what = f"counter {wrong} does not exist; counters has {len(names.counters)}, from 0"
    elif status == lay.LOOP:
        kind = "zero-time loop"
        what = (
            f"an item came to a pool more than {lay.MOST_VISITS:,} times at tick {engine.now}, the "
            f"last time to {pools[wrong]}; let its service take time"
        )
    elif status == lay.DEADLOCK:
        kind = "deadlock"
        what = (
            f"{engine.inside} items wait at their source for pools that are full: "
            f"{', '.join(pools[k] for k in engine.full_pools)}; lengthen a line, or let it drop"
        )
    elif status == lay.NO_ROWS:
        what = (
            f"{engine.inside:,} items are inside, most of them at {pools[engine.longest_line]}; "
            "give it servers or a bounded queue, or raise most_inside"
        )
    return SimulationError(kind, f"{names.stream}: {what}")


def policy_error(error: Exception, names: ItemNames) -> SimulationError:
    """Error for what a policy raised, or why it cannot be compiled."""
    said = str(error)
    if "or_(float" in said or (isinstance(error, TypeError) and _OR.search(said)):
        what = "returns a fraction; return a whole number, by np.int64(np.rint(...))"
    else:
        lines = [line.strip() for line in said.splitlines() if line.strip()] or [""]
        told = next((line for line in lines if not line.startswith("Failed in nopython")), lines[0])
        what = f"its policy raised {type(error).__name__}: {told}; correct it"
    return SimulationError("items", f"{names.stream}: {what}")
