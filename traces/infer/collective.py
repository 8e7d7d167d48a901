"""What each recorded collective is: its name, element type, size and group."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.signature import WIDTH, Operand, Signature
from .call_tree import CallTree
from .launches import Launches
from .network_waits import elements
from .op_signature import DTYPES, operands
from .rank_trace import RankTrace

KERNEL = re.compile(r"(nccl|rccl|mscclpp|msccl|oneccl|hccl)\w*Kernel|ncclDevKernel", re.IGNORECASE)
ANNOTATED = re.compile(r"(nccl|gloo|rccl|c10d|hccl|xccl):")
_NAMES = (  # in this order: the first that fits
    ("all-reduce", r"all_?reduce"),
    ("reduce-scatter", r"reduce_?scatter"),
    ("all-gather", r"all_?gather"),
    ("all-to-all", r"all_?to_?all|sendrecv"),
    ("broadcast", r"broadcast"),
    ("barrier", r"barrier"),
    ("scatter", r"scatter"),
    ("gather", r"gather"),
    ("reduce", r"reduce"),
    ("send", r"send"),
    ("recv", r"recv"),
)
TOGETHER = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "barrier")


class RecordedCollective(NamedTuple):
    """One member's view of a collective.

    Parameters
    ----------
    work : position among the launched work
    size : elements of the larger of this rank's two buffers; 0 where not recorded
    group : ranks, ascending; () where not recorded
    """

    work: int
    name: str
    dtype: str = ""
    size: int = 0
    group: tuple[int, ...] = ()
    channel: str = ""

    @property
    def signature(self) -> str:
        """By the grammar; without an operand where the size is not recorded."""
        what = (Operand(self.dtype, (self.size,)),) if self.dtype and self.size else ()
        return str(Signature("collective", self.name, what))

    @property
    def bytes(self) -> float:
        """Size of the buffer; NaN where not recorded."""
        return float(WIDTH[self.dtype] * self.size) if self.dtype and self.size else np.nan


def is_collective(view: RankTrace, work: Launches) -> NDArray[np.bool_]:
    """(n,) Whether launched work is a collective."""
    found = view.named(KERNEL)[work.row] & view.on_gpu[work.row]
    return found | view.network[work.row]


def collective_name(text: str) -> str:
    """Our word for a library's.

    >>> collective_name("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), collective_name("nccl:_all_gather_base")
    ('all-reduce', 'all-gather')
    """
    low = text.lower()
    return next((name for name, pattern in _NAMES if re.search(pattern, low)), "")


def collectives(view: RankTrace, work: Launches, tree: CallTree) -> list[RecordedCollective]:
    """Describe every collective of a rank, in the order of its launches."""
    found: list[RecordedCollective] = []
    rows = np.flatnonzero(is_collective(view, work))
    if not len(rows):
        return found
    position = {r: i for i, r in enumerate(tree.row.tolist())}
    table = {e: i for i, e in enumerate(view.trace.collectives["event"].tolist())}
    when = np.where(work.call[rows] >= 0, view.start[work.call[rows]], work.start[rows])
    for k in rows[np.lexsort((work.start[rows], when))].tolist():
        around = _around(view, work, tree, position, k)
        found.append(_describe(view, work, k, around, table))
    return found


def _around(
    view: RankTrace, work: Launches, tree: CallTree, position: dict[int, int], k: int
) -> list[int]:
    """The work itself, its call, and what ran around the call, innermost first."""
    rows = [int(work.row[k])]
    at = position.get(int(work.call[k]), -1)
    while at >= 0:
        rows.append(int(tree.row[at]))
        at = int(tree.parent[at])
    return rows


def _describe(
    view: RankTrace, work: Launches, k: int, around: list[int], table: dict[int, int]
) -> RecordedCollective:
    said = next((table[g] for r in around if (g := int(view.rows[r])) in table), -1)
    named = [r for r in around if ANNOTATED.match(view.text(r))]
    name = collective_name(view.text(named[0] if named else around[0])) or "all-to-all"
    dtype, size = "", 0
    for r in [*named, around[0]]:
        if size := elements(view, r):
            dtype = _dtype(view, r)
            break
    group: tuple[int, ...] = ()
    channel = ""
    if said >= 0:
        dtype, size, group, channel = _said(view, said, dtype, size)
    if not group and view.network[work.row[k]]:
        group = next((g.ranks for g in view.process.groups), ())
    return RecordedCollective(k, name, dtype, size, tuple(sorted(group)), channel)


def _dtype(view: RankTrace, row: int) -> str:
    shapes, dtypes = (int(view.events[c][row]) for c in ("shapes", "dtypes"))
    if shapes < 0 or dtypes < 0:
        return ""
    texts = view.trace.strings
    found = operands(texts[shapes], texts[dtypes])
    return max(found, key=lambda o: o.bytes).dtype if found else ""


def _said(view: RankTrace, i: int, dtype: str, size: int) -> tuple[str, int, tuple[int, ...], str]:
    """What the profiler wrote of a collective, in ``record_param_comms`` or on its kernel."""
    table, texts = view.trace.collectives, (*view.trace.strings, "")
    dtype = DTYPES.get(texts[int(table["dtype"][i])].lower(), dtype)
    size = max(int(table["sent"][i]), int(table["received"][i])) or size
    channel = texts[int(table["group"][i])]
    listed = texts[int(table["ranks"][i])]
    if listed and "..." not in listed:
        group = tuple(int(r) for r in re.findall(r"\d+", listed))
    else:
        group = next((g.ranks for g in view.process.groups if g.name == channel), ())
    return dtype, size, group, channel
