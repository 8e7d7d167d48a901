"""Rows of the bounded queues in ``world``, and behind them the components that an op tries."""

from __future__ import annotations

import numpy as np

from ...engine_api.queue_table import UNBOUNDED, QueueTable
from . import state_layout as lay
from .state_layout import Array


def queue_rows_size(queues: QueueTable | None) -> int:
    """Number of integers that the bounded queues take."""
    if queues is None:
        return 0
    bounded = np.count_nonzero(queues.length != UNBOUNDED)
    return int(bounded) * lay.BOUNDED + len(queues.elsewhere.values)


def write_queue_rows(world: Array, parts: Array, queues: QueueTable) -> None:
    """Write the rows of all bounded queues, each with its offset in the row of its component.

    Their offsets never change: only the components lie before them.
    """
    bounded = np.flatnonzero(queues.length != UNBOUNDED)
    first = int(world[lay.QUEUES])
    tried = first + len(bounded) * lay.BOUNDED
    world[tried : tried + len(queues.elsewhere.values)] = queues.elsewhere.values
    for k, c in enumerate(bounded.tolist()):
        at = first + k * lay.BOUNDED
        row = world[at : at + lay.BOUNDED]
        row[lay.LENGTH], row[lay.LAST_TRIED] = queues.length[c], queues.last[c]
        row[[lay.TRIED, lay.TRIED_END]] = tried + queues.elsewhere.indptr[c : c + 2]
        parts[c, lay.QUEUE] = at
    if len(queues.elsewhere.values):
        world[lay.ONLINE] = 1  # who is sent elsewhere is timed at its start
