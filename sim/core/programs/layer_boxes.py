"""Tables for kernels that map the set of busy layers to a category of the time breakdown.

The categories (boxes) are defined in `activity.py`.
"""

from __future__ import annotations

import numpy as np

LAYERS = 5  # compute, network, copy, waiting, host
NETWORK, WAITING = 1, 3
BOXES = 7
# Of an op by its column in a tally: the layer that it keeps busy.
LAYER = np.array([0, 4, 2, 1, 1, 1, -1, -1] + [1] * 24, np.int64)


def _box_of_layers(busy: int) -> int:
    """Category of a time interval, from a bit mask of the layers that are busy in it."""
    compute, network, copy, waiting, host = ((busy >> i) & 1 for i in range(LAYERS))
    if compute:
        return 1 if network else 0
    return 2 if network else 3 if copy else 4 if waiting else 5 if host else 6


BOX = np.array([_box_of_layers(busy) for busy in range(1 << LAYERS)], np.int64)
