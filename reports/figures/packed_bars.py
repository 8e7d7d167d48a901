"""Timeline bars reduced for a page: short ops are merged, columns are packed as bytes.

``reports/script/packed_bars.js`` decodes the packed form.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FINEST = 2**26  # ticks over the whole span, beyond which nothing is told apart


class TimelineBars(NamedTuple):
    """Bars of a timeline as columns of shape (n,), sorted by lane and start.

    Parameters
    ----------
    lane : lane of the bar, from 0
    start, end : start and end of the bar, in ticks
    kind : index of the bar's kind
    name : index of the op's name; -1 for none
    ops : number of ops that the bar stands for
    busy : ticks in which the ops of the bar ran, without the gaps between them
    met : index of the collective that the op belongs to; -1 for none
    wait : ticks that the rank waited for the collective to begin
    arrived_last : True if the rank arrived last at the collective
    """

    lane: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.int64]
    name: NDArray[np.int64]
    ops: NDArray[np.int64]
    busy: NDArray[np.int64]
    met: NDArray[np.int64]
    wait: NDArray[np.int64]
    arrived_last: NDArray[np.int64]

    @classmethod
    def of_ops(
        cls,
        lane: NDArray[Any],
        start: NDArray[Any],
        end: NDArray[Any],
        kind: NDArray[Any],
        name: NDArray[Any],
        met: NDArray[Any] | int = -1,
        wait: NDArray[Any] | int = 0,
        arrived_last: NDArray[Any] | bool = False,
    ) -> TimelineBars:
        """Bars with one op each; leave out the last three arguments if no op is a collective.

        >>> lane, start = np.array([1, 0, 0]), np.array([5, 7, 2])
        >>> TimelineBars.of_ops(lane, start, start + 1, lane, lane).start.tolist()
        [2, 7, 5]
        """
        order = np.lexsort((start, lane))
        lane, start, end, kind, name, met, wait, arrived_last = (
            np.broadcast_to(np.asarray(c, np.int64), len(order))[order]
            for c in (lane, start, end, kind, name, met, wait, arrived_last)
        )
        each = np.ones(len(order), np.int64), end - start
        return cls(lane, start, end, kind, name, *each, met, wait, arrived_last)


class CollectiveArrivals(NamedTuple):
    """Arrival of ranks at collectives, as columns with one row per collective, shape (n,).

    Parameters
    ----------
    members : number of ranks that take part
    last_count : number of ranks that arrive last, at the same tick
    first_last_rank : lowest rank among those that arrive last
    longest_wait : ticks that the first rank to arrive waits
    """

    members: NDArray[np.int64]
    last_count: NDArray[np.int64]
    first_last_rank: NDArray[np.int64]
    longest_wait: NDArray[np.int64]


def limit_bars(bars: TimelineBars, max_bars: int) -> tuple[TimelineBars, int]:
    """Reduce bars to at most ``max_bars`` by merging short ops.

    Returns the bars, and the length in ticks below which consecutive ops were merged; 0 if none
    were. Longer ops stay as they are.

    >>> ops = TimelineBars.of_ops(*np.array([[0] * 5, [0, 2, 4, 9, 50], [1, 3, 9, 50, 51],
    ...                                      [0, 1, 1, 0, 1], [7] * 5]))
    >>> few, least = limit_bars(ops, 4)
    >>> least, few.start.tolist(), few.end.tolist(), few.kind.tolist(), few.ops.tolist()
    (7, [0, 9, 50], [9, 50, 51], [1, 0, 1], [3, 1, 1])
    >>> limit_bars(ops, 5)[1]
    0
    """
    least = 0
    if len(bars.lane) > max_bars:
        least = max(int(np.ptp([bars.start.min(), bars.end.max()])) // max_bars, 1) // 2 + 1
    few = bars
    while len(few.lane) > max_bars:
        few = merge_short_ops(bars, least)
        if len(few.lane) > max_bars:
            least *= 2
    return few, least


def merge_short_ops(bars: TimelineBars, min_ticks: int) -> TimelineBars:
    """Merge ops shorter than ``min_ticks`` ticks in the same pixel of that width into one bar."""
    short = bars.end - bars.start < min_ticks
    pixel = np.where(short, bars.start // min_ticks, np.arange(len(short)))
    new = np.ones(len(short), bool)
    new[1:] = (
        ~(short[1:] & short[:-1]) | (bars.lane[1:] != bars.lane[:-1]) | (pixel[1:] != pixel[:-1])
    )
    first = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    several = np.diff(np.append(first, len(new))) > 1
    return TimelineBars(
        bars.lane[first],
        bars.start[first],
        np.maximum.reduceat(bars.end, first),
        majority(group, bars.kind, bars.busy)[1],
        np.where(several, -1, bars.name[first]),
        np.add.reduceat(bars.ops, first),
        np.add.reduceat(bars.busy, first),
        np.where(several, -1, bars.met[first]),
        np.where(several, 0, bars.wait[first]),
        np.where(several, 0, bars.arrived_last[first]),
    )


def majority(
    group: NDArray[np.int64], kind: NDArray[np.int64], time: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Kind with the most busy time in each group of bars, shape (groups,)."""
    most = int(kind.max(initial=0)) + 1
    cell, at = np.unique(group * most + kind, return_inverse=True)
    total = np.bincount(at, time, len(cell))
    order = np.lexsort((total, cell // most))
    last = np.append(np.diff(cell[order] // most) != 0, True)
    chosen: NDArray[np.int64] = cell[order[last]]
    return chosen // most, chosen % most


def packed_bars(
    bars: TimelineBars,
    span: tuple[int, int],
    tick: float,
    names: Sequence[Any],
    meetings: CollectiveArrivals | None = None,
) -> dict[str, Any]:
    """Encode bars in the form that the page's script reads.

    Times are rounded to 2^-26 of the span or to one tick, whichever is longer.

    Parameters
    ----------
    span : first and last tick of the time axis
    tick : length of a tick in s
    names : op names by index, each as a text or as (text, number of ops, seconds)
    meetings : collectives that the bars refer to; a wait above zero is never rounded to zero

    Examples
    --------
    >>> one = TimelineBars.of_ops(*np.array([[0], [3], [9], [2], [0]]))
    >>> packed = packed_bars(one, (3, 9), 1e-12, ["gemm"])
    >>> packed["n"], packed["first"], len(zlib.decompress(base64.b64decode(packed["packed"])))
    (1, 3e-12, 31)
    """
    step = max((span[1] - span[0]) // FINEST, 1)
    start = (bars.start - span[0]) // step
    length = np.maximum((bars.end - span[0] - 1) // step + 1 - start, 1)
    busy = np.minimum(-(-bars.busy // step), length)
    new = np.diff(bars.lane, prepend=-1)
    before = np.where(new > 0, 0, np.roll(start + length, 1))
    columns = (
        (new, 2), (start - before, 4), (length, 4), (bars.kind, 1),
        (bars.name + 1, 4), (bars.ops, 4), (length - busy, 4), (bars.met + 1, 4),
        (-(-bars.wait // step) * 2 + bars.arrived_last, 4),
    )  # fmt: skip
    met = meetings._replace(longest_wait=-(-meetings.longest_wait // step)) if meetings else ()
    planes = b"".join(_byte_planes(column, width) for column, width in columns)
    planes += b"".join(_byte_planes(column, 4) for column in met)
    return {
        "n": len(start),
        "meetings": len(meetings.members) if meetings else 0,
        "first": span[0] * tick,
        "step": step * tick,
        "names": list(names),
        "packed": base64.b64encode(zlib.compress(planes, 6)).decode(),
    }


def _byte_planes(column: NDArray[np.int64], width: int) -> bytes:
    """Bytes of integers of ``width`` bytes each, all low bytes first, which compress well."""
    whole = column.astype("<i8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(whole[:, :width].T).tobytes()
